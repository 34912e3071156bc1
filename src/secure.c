/* What the secure and the audit build know of small blocks that the default build does not.
 *
 *     secure   the second word of a free block holds its own address, keyed: a block freed twice carries the stamp already.
 *              A program could write that very word into a block in use by chance once in 2^64.
 *     audit    one bit for each 16 bytes of the chunks says whether a block starts there and is in use.
 *
 * Both check that an address is the start of a block that was given out. */
#include "alloc.h"

static uintptr_t secure_stamp(const void *block)
{
    return (uintptr_t)block ^ ~gb_the.key;
}

void gb_secure_out(gb_block *block, const gb_block *next)
{
    const gb_page *page = gb_page_head(gb_page_entry(block));
    if (next && (uintptr_t)next - gb_page_start(page) >= (size_t)page->slices << GB_SLICE_LOG2)
        gb_report("malloc", block, "free block of %u bytes was written to: its link leads out of its page",
            gb_classes[page->cls].bytes);
    ((uintptr_t *)block)[0] = ((uintptr_t *)block)[1] = 0;
}

bool gb_block_in_use(const gb_page *page, const void *block)
{
    size_t offset = (uintptr_t)block - gb_page_start(page);
    uint32_t index = gb_class_index(page->cls, offset);
    if (index >= page->cap || (size_t)index * gb_classes[page->cls].bytes != offset)
        return false;
    if (page->kind == GB_MEDIUM)
        return (gb_load_relaxed(&page->bits) >> index & 1) == 0;
    if (index >= page->bump)
        return false;
    if (GB_SECURE && ((const uintptr_t *)block)[1] == secure_stamp(block))
        return false;
    return true;
}

bool gb_free_allowed(const char *call, const gb_page *page, void *block)
{
    if (!gb_block_in_use(page, block) || (GB_AUDIT && !gb_audit_died(block))) {
        gb_report_address(call, block);
        return false;
    }
    if (GB_SECURE)
        ((uintptr_t *)block)[1] = secure_stamp(block);
    return true;
}

/* ---- the audit build's shadow ---- */

static uint64_t *audit_word(const void *block, uint64_t *bit)
{
    static uint64_t *shadow;
    if (!shadow) {
        size_t bytes = (size_t)gb_the.chunks_max << (GB_CHUNK_LOG2 - 7);
        gb_lock_take(&gb_the.lock);
        if (!shadow) {
            uintptr_t at = gb_port_reserve(bytes);
            if (at == 0 || gb_port_commit(at, bytes, true) != GB_COMMITTED)
                gb_port_abort();
            shadow = (uint64_t *)at;
        }
        gb_lock_drop(&gb_the.lock);
    }
    size_t i = ((uintptr_t)block - gb_the.base) >> 4;
    *bit = (uint64_t)1 << i % 64;
    return shadow + i / 64;
}

void gb_audit_born(const void *block)
{
    uint64_t bit, *word = audit_word(block, &bit);
    if (__atomic_fetch_or(word, bit, __ATOMIC_RELAXED) & bit)
        gb_report("malloc", block, "this block is in use already: glebe's own tables are damaged");
}

bool gb_audit_died(const void *block)
{
    uint64_t bit, *word = audit_word(block, &bit);
    return __atomic_fetch_and(word, ~bit, __ATOMIC_RELAXED) & bit;
}
