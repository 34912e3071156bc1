/* The slow parts of the fast paths, and functions built on them: aligned blocks, realloc, sizes of blocks. */

#include "alloc.h"
#include "slow.h"

void *gb_alloc_aligned(glebe_heap *heap, size_t alignment, size_t bytes)
{
    return alignment <= 16 ? gb_alloc(heap, bytes) : gb_big_aligned(heap, alignment, bytes);
}

static GB_NOINLINE size_t alloc_bytes_slow(const char *call, const void *block)
{
    gb_page *entry = gb_page_entry(block);
    size_t bytes = GB_SECURE && entry ? gb_secure_used(gb_page_head(entry), block) : 0;
    bytes = bytes ? bytes : gb_big_bytes(entry, block);
    if (!bytes && !(GB_ZEROS && gb_zero_in_use(block)))
        gb_report_address(call, block);
    return bytes;
}

size_t gb_block_bytes(const char *call, const void *block)
{
    size_t bytes = gb_class_bytes(block);
    return GB_LIKELY(bytes) ? bytes : alloc_bytes_slow(call, block);
}

bool gb_size_fits(const char *call, const void *block, size_t bytes)
{
    block = gb_without_tag(call, block);
    if (GB_TAGS && !block)
        return false;
    size_t usable = gb_block_bytes(call, block);
    if (usable == 0 && !(GB_ZEROS && gb_zero_in_use(block)))
        return false;
    const gb_page *entry = GB_SECURE && bytes ? gb_page_entry(block) : NULL;
    bool exact = entry && entry->kind != GB_FREE, fits = exact ? bytes == usable : bytes <= usable;
    if (!fits)
        gb_report(call, block, "size %zu is wrong: the block has %zu bytes", bytes, usable);
    return fits;
}

bool gb_alignment_fits(const char *call, const void *block, size_t alignment)
{
    bool fits = gb_is_pow2(alignment) && ((uintptr_t)block & (alignment - 1)) == 0;
    if (!fits)
        gb_report(call, block, "alignment %zu is wrong: the block does not have it", alignment);
    return fits;
}

void *gb_alloc_any(glebe_heap *heap, size_t bytes)
{
    return gb_alloc(heap, bytes);
}

void gb_free_any(const char *call, glebe_heap *self, void *block)
{
    gb_free(call, self, block);
}

/* In the safe build a block keeps its end, into which words may point, and its OS pages do not move away. Returns
 * whether a block above the medium ones stays when it shrinks. A huge one gives the memory of its end back: a copy of
 * what is left may be more than is resident. */
static bool alloc_shrinks_here(void *block, size_t before, size_t bytes)
{
    uintptr_t end = (uintptr_t)block + before, from = gb_round_up((uintptr_t)block + bytes, gb_the.page_bytes);
    if (bytes > before || (bytes <= before / 2 && bytes <= GB_LARGE_MAX))
        return false;
    if (bytes <= before / 2 && from < end)
        gb_port_purge(from, end - from, false);
    return true;
}

void *gb_realloc(const char *call, glebe_heap *self, void *block, size_t bytes)
{
    size_t before = gb_block_bytes(call, block);
    if (GB_ZEROS && before == 0 && gb_zero_in_use(block)) {
        void *fresh = bytes ? gb_alloc(self, bytes) : block;
        if (fresh && bytes)
            gb_zero_give(block);
        return fresh;
    }
    if (before == 0) {
        errno = EINVAL;
        return NULL;
    }
    gb_page *entry = gb_page_entry(block);
    if ((GB_HUGE && !entry) || entry->kind == GB_FREE) {
        if (GB_SAFE && alloc_shrinks_here(block, before, bytes))
            return block;
        void *resized = GB_SAFE && bytes <= before ? NULL : gb_big_resize(entry, block, before, bytes);
        if (resized)
            return resized;
    } else if (GB_SECURE && gb_secure_resize(gb_page_head(entry), block, bytes))
        return block;
    else if (!GB_SECURE && gb_stays(before, bytes))
        return block;
    int saved = bytes > before ? 0 : errno;
    void *fresh = GB_GROWN_FROM < SIZE_MAX && bytes > before && bytes >= GB_GROWN_FROM
        ? gb_big_grown(self, block, bytes)
        : gb_alloc_seldom(self, bytes);
    if (fresh == block)
        return block;
    if (!fresh) {
        if (bytes > before)
            return NULL;
        errno = saved; /* the old block serves a smaller request */
        return block;
    }
    memcpy(fresh, block, bytes < before ? bytes : before);
    gb_free_seldom(call, self, block);
    return fresh;
}
