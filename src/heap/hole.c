/* Holes: purging parts of a small page while other blocks of it are in use. The region's lock guards `holes` and
 * `punched`; all else belongs to the owner.
 *
 * A page with mostly free blocks may contain whole OS pages (units) without a block in use. The owner takes their
 * blocks off the free list. Then that memory holds no link, and any thread may purge it while the owner sleeps. A block
 * is in a hole if it touches a unit whose bit is set. Taking a unit back links the blocks that touch no other such
 * unit.
 *
 * There are two ways to find holes. gb_page_trim walks the page's free list and finds all of them; it needs an owner
 * with time. With the background thread the program may sleep and leave purging to that thread. So an emptying page
 * of four slices is parked, and notices holes as they appear:
 *
 *     entry 0   owner 0, so that each free of its blocks takes the slow path        free: none
 *     entry 1   owner 0     units[u]: blocks in use that touch unit u               0: a hole
 *     entry 2   owner 0     units[u]: first free block that starts in unit u, + 1   a list, linked through the blocks
 *     entry 3   owner 0
 *
 * When the last block in use of a unit is freed, the unit becomes a hole and its list is dropped. The next refill
 * from the page joins the remaining lists, and the page is unparked. A list of a parked page may hold a block whose
 * end reaches into a hole: that block belongs to the hole, and unparking skips it. */
#include "heap.h"

/* Sets the first and last unit that block `index` touches. */
static void block_units(const gb_page *page, uint32_t index, unsigned *first, unsigned *last)
{
    size_t bytes = gb_classes[page->cls].bytes;
    *first = (unsigned)(index * bytes >> GB_UNIT_LOG2);
    *last = (unsigned)(((index + 1) * bytes - 1) >> GB_UNIT_LOG2);
}

static uint32_t block_unit_mask(const gb_page *page, uint32_t index)
{
    unsigned first, last;
    block_units(page, index, &first, &last);
    return (uint32_t)1 << first | (uint32_t)1 << last; /* a small block touches two units at most */
}

#if GB_SECURE
bool gb_hole_has(const gb_page *page, uint32_t index)
{
    return (block_unit_mask(page, index) & page->holes) != 0;
}
#endif

/* Sets the range of blocks that touch `unit`: the first, and one past the last. */
static void unit_blocks(const gb_page *page, unsigned unit, uint32_t *from, uint32_t *to)
{
    size_t start = (size_t)unit << GB_UNIT_LOG2;
    *from = gb_class_index(page->cls, start);
    *to = gb_class_index(page->cls, start + GB_UNIT_BYTES - 1) + 1;
    if (*to > page->bump)
        *to = page->bump;
}

uint32_t gb_hole_blocks(const gb_page *page, uint32_t units)
{
    uint32_t count = 0, done = 0; /* blocks below `done` are counted */
    for (; units; units &= units - 1) {
        uint32_t from, to;
        unit_blocks(page, gb_ctz32(units), &from, &to);
        from = from < done ? done : from;
        if (to > from) {
            count += to - from;
            done = to;
        }
    }
    return count;
}

unsigned gb_hole_take(gb_page *page)
{
    gb_lock_take(&gb_the.lock);
    uint32_t resident = (uint32_t)(page->holes & ~page->punched);
    unsigned unit = gb_ctz32(resident ? resident : page->holes);
    page->holes = (uint16_t)(page->holes & ~(1u << unit));
    page->punched = (uint16_t)(page->punched & ~(1u << unit));
    gb_lock_drop(&gb_the.lock);
    return unit;
}

static gb_block *hole_carve_one(gb_page *page)
{
    unsigned unit = gb_hole_take(page);
    uint32_t from, to, count = 0;
    gb_block *chain = NULL;
    unit_blocks(page, unit, &from, &to);
    for (uint32_t i = to; i-- > from;)
        if ((block_unit_mask(page, i) & page->holes) == 0) {
            gb_block *block = gb_block_at(page, i);
            gb_link_set(block, chain);
            chain = block;
            count++;
        }
    page->left += (int32_t)count;
    return chain;
}

gb_block *gb_hole_carve(gb_page *page)
{
    gb_block *chain = NULL;
    while (!chain && page->holes)
        chain = hole_carve_one(page);
    return chain;
}

size_t gb_holes_purge(gb_page *page, bool lazily, gb_purge_budget *budget)
{
    size_t given = 0;
    for (uint32_t want = (uint32_t)(page->holes & ~page->punched); want;) {
        unsigned from = gb_ctz32(want), units = gb_ctz32(~(want >> from));
        uint32_t run = (((uint32_t)1 << units) - 1) << from;
        size_t bytes = (size_t)units << GB_UNIT_LOG2;
        if (gb_purge_range(gb_page_start(page) + ((uintptr_t)from << GB_UNIT_LOG2), bytes, lazily, budget)
            != GB_PURGE_REFUSED) {
            given += bytes;
            page->punched = (uint16_t)(page->punched | run);
        }
        want &= ~run;
    }
    return given;
}

/* Adds holes, and purges them `now` or queues their chunk. */
static void hole_give(gb_page *page, uint32_t units, bool now)
{
    gb_purge_budget budget = gb_purge_all();
    gb_lock_take(&gb_the.lock);
    page->holes = (uint16_t)(page->holes | units);
    if (now)
        gb_holes_purge(page, gb_the.options.purge_lazily, &budget);
    else
        gb_purge_queue(gb_chunk_of(gb_slice_of(page)));
    gb_lock_drop(&gb_the.lock);
}

/* Walking a free list in random order costs a cache miss per block. Prefetching in address order avoids them. */
static void page_prefetch(const gb_page *page)
{
    enum { LINE_BYTES = 64 };
    uint32_t bytes = gb_classes[page->cls].bytes;
    uintptr_t start = gb_page_start(page), end = start + (size_t)page->bump * bytes;
    if (!gb_page_list(page))
        return;
    for (uintptr_t at = start; at < end; at += bytes < LINE_BYTES ? LINE_BYTES : bytes)
        __builtin_prefetch((const void *)at, 1);
}

uint32_t gb_page_trim(gb_page *page, uint32_t coming, bool now)
{
    uint32_t lost = 0;
    if (gb_the.page_bytes > GB_UNIT_BYTES)
        return lost;
    page_prefetch(page);
    uint64_t is_free[GB_PAGE_BLOCKS_MAX / 64];
    memset(is_free, 0, (page->bump + 63u) / 64 * 8);
    uintptr_t start = gb_page_start(page);
    if (GB_SECURE)
        lost = page->bump - gb_hole_blocks(page, page->holes) - (gb_page_out(page) - coming);
    for (gb_block *b = gb_page_list(page), *before = NULL; b; before = b, b = gb_link_next(page, b)) {
        uint32_t i = gb_class_index(page->cls, (uintptr_t)b - start);
        if (GB_SECURE && gb_bit(is_free, i)) {
            gb_secure_cut(page, before);
            break;
        }
        gb_bit_set(is_free, i);
        lost -= GB_SECURE;
    }
    uint32_t units = ((uint32_t)1 << (gb_page_bytes(page) >> GB_UNIT_LOG2)) - 1;
    uint32_t holes = page->holes, busy = 0;
    for (uint32_t i = 0; i < page->bump; i++)
        if (!gb_bit(is_free, i)) {
            uint32_t mask = block_unit_mask(page, i);
            if ((mask & holes) == 0) /* else the block is free, in a known hole */
                busy |= mask;
        }
    uint32_t found = units & ~busy & ~holes;
    if (page->bump < page->cap || found == 0)
        return lost;
    gb_block *chain = NULL;
    for (uint32_t i = page->bump; i-- > 0;)
        if (gb_bit(is_free, i) && (block_unit_mask(page, i) & found) == 0) {
            gb_block *block = gb_block_at(page, i);
            gb_link_set(block, chain);
            chain = block;
        }
    gb_page_list_set(page, chain);
    hole_give(page, found, now);
    return lost;
}

/* ---- parked pages ---- */

static uint16_t *park_live(gb_page *page) { return page[1].units; }
static uint16_t *park_first(gb_page *page) { return page[2].units; }

/* Puts a free block on its unit's list. Returns the units that have no block in use any more. */
static uint32_t park_put(gb_page *page, gb_block *block, uint32_t index)
{
    uint16_t *live = park_live(page), *first = park_first(page);
    unsigned from, to;
    uint32_t empty = 0;
    block_units(page, index, &from, &to);
    gb_link_set(block, first[from] ? gb_block_at(page, first[from] - 1u) : NULL);
    first[from] = (uint16_t)(index + 1);
    if (--live[from] == 0)
        empty = (uint32_t)1 << from;
    if (to != from && --live[to] == 0)
        empty |= (uint32_t)1 << to;
    return empty;
}

/* The count of a unit leaves out blocks that reach into an adjacent hole: they are free, and on no list. */
void gb_page_park(gb_page *page)
{
    uint16_t *live = park_live(page), *first = park_first(page);
    uint32_t holes = page->holes, found = 0;
    for (unsigned u = 0; u < GB_PAGE_UNITS; u++) {
        uint32_t from, to;
        unit_blocks(page, u, &from, &to);
        while (from < to && (block_unit_mask(page, from) & holes))
            from++;
        while (from < to && (block_unit_mask(page, to - 1) & holes))
            to--;
        live[u] = (uint16_t)(to - from);
        first[u] = 0;
    }
    gb_block *chain = gb_page_list(page);
    gb_page_list_set(page, NULL);
    gb_page_heap(page)->unlooked[page->cls] -= page->mark == GB_UNLOOKED;
    page->mark = GB_PARKED;
    gb_page_own(page, 0);
    while (chain) {
        gb_block *block = chain;
        chain = gb_link_get(block);
        found |= park_put(page, block, gb_class_index(page->cls, (uintptr_t)block - gb_page_start(page)));
    }
    if (found)
        hole_give(page, found, false);
}

void gb_page_unpark(gb_page *page)
{
    const uint16_t *first = park_first(page);
    gb_block *chain = NULL;
    for (unsigned u = GB_PAGE_UNITS; u-- > 0;)
        for (gb_block *block = (page->holes >> u & 1) || !first[u] ? NULL : gb_block_at(page, first[u] - 1u), *next;
            block; block = next) {
            next = gb_link_get(block);
            if (block_unit_mask(page, gb_class_index(page->cls, (uintptr_t)block - gb_page_start(page))) & page->holes)
                continue;
            gb_link_set(block, chain);
            chain = block;
        }
    gb_page_list_set(page, chain);
    page->mark = GB_UNLOOKED;
    gb_page_own(page, (uintptr_t)gb_page_heap(page));
}

bool gb_parked_put(gb_page *page, gb_block *block)
{
    uint32_t index = gb_class_index(page->cls, (uintptr_t)block - gb_page_start(page)),
             mask = block_unit_mask(page, index);
    if (mask & page->holes)
        return false;
    uint32_t empty = park_put(page, block, index);
    if (empty)
        hole_give(page, empty, false);
    return true;
}
