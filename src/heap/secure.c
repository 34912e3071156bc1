/* Checks of small blocks that only the secure and the audit build make.
 *
 *     secure   The second word of a free block is its stamp: its own address, keyed. A block freed twice has the stamp
 *              already. A free block without it was written to. By chance a program writes the stamp once in 2^64.
 *              All words behind the stamp are zero: what the block held cannot be read any more, and a block that is
 *              not zero when it is handed out was written to.
 *     audit    A bit for each block says whether it is in use (audit.c).
 *
 * Both check that an address is the start of a block that was handed out. */
#include "heap.h"

static uintptr_t secure_stamp(const void *block)
{
    return (uintptr_t)block ^ ~gb_the.key;
}

enum { STAMPED_WORDS = 2 }; /* the link and the stamp */

static size_t block_words(const gb_page *page)
{
    return gb_classes[page->cls].bytes / sizeof(uintptr_t);
}

void gb_secure_stamp(gb_block *block)
{
    uintptr_t *words = (uintptr_t *)block;
    size_t count = block_words(gb_page_head(gb_page_entry(block)));
    words[1] = secure_stamp(block);
    memset(words + STAMPED_WORDS, 0, (count - STAMPED_WORDS) * sizeof *words);
}

/* Returns whether all words behind the stamp are zero. */
static bool secure_zero(const gb_page *page, const gb_block *block)
{
    const uintptr_t *words = (const uintptr_t *)block;
    uintptr_t all = 0;
    for (size_t i = STAMPED_WORDS, count = block_words(page); i < count; i++)
        all |= words[i];
    return all == 0;
}

bool gb_secure_stamped(const gb_block *block)
{
    return ((const uintptr_t *)block)[1] == secure_stamp(block);
}

static void secure_report(const gb_page *page, const gb_block *block)
{
    gb_report("malloc", block, "free block of %u bytes was written to after it was freed, or its neighbour overflowed",
        gb_classes[page->cls].bytes);
}

void gb_secure_cut(const gb_page *page, gb_block *block)
{
    secure_report(page, block);
    gb_link_set(block, NULL);
}

gb_block *gb_secure_next(const gb_page *page, gb_block *block)
{
    gb_block *next = gb_link_get(block);
    size_t offset = (uintptr_t)next - gb_page_start(page);
    uint32_t index;
    if (!next
        || (offset >> GB_SLICE_LOG2 < page->slices && gb_class_exact(page->cls, offset, &index) && index < page->bump))
        return next;
    gb_secure_cut(page, block);
    return NULL;
}

gb_block *gb_secure_out(gb_block *block, gb_block *next)
{
    const gb_page *page = gb_page_head(gb_page_entry(block));
    bool astray = next && (uintptr_t)next - gb_page_start(page) >= gb_page_bytes(page);
    if (astray || !gb_secure_stamped(block) || !secure_zero(page, block)) {
        secure_report(page, block);
        memset(block, 0, gb_classes[page->cls].bytes);
    }
    ((uintptr_t *)block)[0] = ((uintptr_t *)block)[1] = 0;
    return astray ? NULL : next;
}

bool gb_free_allowed(const char *call, const gb_page *page, void *block)
{
    if (!gb_block_in_use(page, block) || (GB_AUDIT && !gb_audit_died(block))) {
        gb_report_address(call, block);
        return false;
    }
    if (GB_SECURE)
        gb_secure_stamp(block);
    return true;
}
