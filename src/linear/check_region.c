/* glebe_check of linear memory: slices, and blocks with tags. */
#include "../debug/check.h"
#include "tagged.h"

static void check_run(gb_check *check, const gb_page *page)
{
    const glebe_heap *heap = gb_page_heap(page);
    CHECK(heap->kind != GB_HEAP_UNUSED && gb_heap_owns(heap, page), 9, page,
        "a run belongs to a heap that is not in use");
    for (uint32_t k = 0; k < page->slices; k++) {
        CHECK(page[k].back_bytes == k * sizeof(gb_page), 1, page + k, "the distance to the head is wrong");
        CHECK(page[k].kind == page->kind, 1, page + k, "slices of one run differ in kind");
        CHECK(gb_load_relaxed(&page[k].owner) == gb_owner(heap, (enum gb_kind)page->kind), 1, page + k,
            "the owner is wrong");
    }
}

/* Checks that a free block is in its bin, and the bin's bit is set; and that it is zero between its tags if it was
 * never used. */
static void check_free_block(gb_check *check, const gb_tagged *c)
{
    uint32_t bin = gb_tagged_bin(gb_tagged_bytes(c)), links = 0;
    for (const gb_tagged *link = gb_the.linear.bins[bin]; link; link = link->next)
        links += link == c;
    CHECK(links == 1 && *c->link == c && gb_bit(gb_the.linear.filled, bin), 4, c, "a free block is not in its bin");
    CHECK(!c->next || c->next->link == &c->next, 4, c, "a bin's forward and back links differ");
    CHECK(gb_tagged_next(c, gb_tagged_bytes(c))->before == gb_tagged_bytes(c), 1, c,
        "a free block's end does not lead to its start");
    const char *from = (const char *)(c + 1), *to = (const char *)gb_tagged_next(c, gb_tagged_bytes(c));
    if (gb_tagged_start(c) >= gb_the.linear.fresh && check->level >= 2)
        for (; from < to; from++)
            if (*from != 0) {
                gb_check_fail(check, 6, from, "memory that is marked zero is not zero");
                break;
            }
}

/* Checks the blocks in the slices [from, to). Returns the bytes in use: of the heap `of`, or of all if it is NULL. */
static uint64_t check_blocks(gb_check *check, uint32_t from, uint32_t to, const glebe_heap *of)
{
    uint64_t used = 0;
    bool before_used = true;
    const gb_tagged *c = gb_tagged_at(gb_slice_start(from) + 16), *end = gb_tagged_at(gb_slice_start(to));
    for (uint32_t bytes; c != end; c = gb_tagged_next(c, bytes)) {
        bytes = gb_tagged_bytes(c);
        bool ok = bytes >= GB_TAGGED_LEAST && bytes <= (uintptr_t)end - (uintptr_t)c;
        CHECK(ok, 2, c, "a block's tag leads out of its piece of memory");
        if (!ok)
            return used;
        CHECK(before_used == ((c->tag & GB_TAG_BEFORE_USED) != 0), 2, c, "a tag is wrong about the block before");
        CHECK(before_used || c->tag & GB_TAG_USED, 2, c, "two adjacent free blocks were not merged");
        before_used = c->tag & GB_TAG_USED;
        CHECK(!(c->tag & GB_TAG_WARM) || (before_used && c == gb_the.linear.warm && bytes == gb_the.linear.warm_bytes),
            2, c, "a block that is marked warm is not the warm block");
        if (!before_used && !of)
            check_free_block(check, c);
        else if (before_used && gb_tagged_start(c) != (uintptr_t)gb_the.table && (!of || gb_tagged_heap(c) == of))
            used += bytes;
    }
    CHECK(end->tag == (GB_TAG_USED | (before_used ? GB_TAG_BEFORE_USED : 0)), 2, end,
        "the tag that ends a piece of memory is wrong");
    return used;
}

static uint32_t blocks_end(uint32_t slice)
{
    while (slice < gb_load_relaxed(&gb_the.slices) && gb_entry_at(slice)->kind == GB_FREE)
        slice++;
    return slice;
}

size_t gb_check_big(gb_check *check, const glebe_heap *heap)
{
    uint64_t used = 0;
    uint32_t slices = (uint32_t)gb_load_relaxed(&gb_the.slices);
    for (uint32_t i = 0, end; i < slices; i = end + 1)
        if ((end = blocks_end(i)) > i)
            used += check_blocks(check, i, end, heap);
    return (size_t)used;
}

void gb_check_region(gb_check *check)
{
    uint32_t slices = (uint32_t)gb_load_relaxed(&gb_the.slices);
    uint64_t used = 0, ours = 0;
    for (uint32_t i = 0, length; i < slices; i += length) {
        const gb_page *page = gb_entry_at(i);
        enum gb_kind kind = (enum gb_kind)page->kind;
        length = kind == GB_RESERVED ? 1 : kind == GB_FREE ? blocks_end(i) - i : page->slices;
        CHECK(kind == GB_RESERVED || page->back_bytes == 0, 1, page, "a slice inside a run follows no head");
        CHECK(length > 0 && i + length <= slices, 1, page, "a run is longer than memory");
        if (length == 0 || i + length > slices)
            return;
        if (kind == GB_FREE) {
            used += check_blocks(check, i, i + length, NULL);
            for (uint32_t k = 0; k < length; k++)
                CHECK(page[k].back_bytes == 0 && gb_load_relaxed(&page[k].owner) == 0, 1, page + k,
                    "the entry of a slice without a page is not zero");
        } else if (kind != GB_RESERVED) {
            check_run(check, page);
            used += gb_page_bytes(page);
        }
        ours += kind == GB_RESERVED ? 0 : length;
    }
    CHECK(ours << GB_SLICE_LOG2 == glebe_live.stats.committed_bytes + glebe_live.stats.table_bytes, 7, &gb_the,
        "slices do not add up to the memory");
    CHECK(used == gb_held(), 7, &gb_the, "the bytes in use are not those of the pages and blocks in use");
    CHECK(slices <= gb_the.linear.table_room || slices == 0, 7, &gb_the, "the table is too short");
}
