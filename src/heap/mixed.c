/* Mixed pages: the first small blocks of a small heap, of many classes in one page. Owner only; other threads read
 * the maps and `bump`.
 *
 *     unit 0  |map| 32 32 | 48 | 384          | 64 | 32 32 | 200      | ...      a class takes 64 bytes, or one block
 *     unit 1  |map| 32 32 32 32 32 32 32 32 | 48 48 48 48 48   | ...             256 bytes, or one block
 *     ...      cells of 64 bytes; the first of each unit is its map                     | never used  |
 *
 * With a page for each class, the first block of each class costs an OS page. A large process does not notice. A
 * program with a heap for each Lua state or each request does: the 300 blocks of a fresh state are of 12 classes. In
 * a mixed page a class takes a cell of 64 bytes at a time, in later units 256 bytes, or as many cells as one block
 * needs. So a small heap of a few blocks, as each of many threads may have, takes one OS page.
 *
 * A unit is 4 KiB. Its map has a byte for each of its cells: 0, not carved; a class + 1; INSIDE, the continuation of
 * the row of blocks that begins in an earlier cell. No block crosses a unit boundary. `bump` is the first cell never
 * used; maps of units behind it are not valid.
 *
 * For free() a mixed page is a small page like others: blocks go to page->free. The next refill of an empty thread
 * free list distributes them to the lists of their classes. A full mixed page stays mixed, and from then on each
 * class gets pages of its own. */
#include "heap.h"

enum {
    CELL_LOG2 = 6,
    CELL_BYTES = 1 << CELL_LOG2,
    GROUP_BYTES = 256,
    UNIT_CELLS = 1 << (GB_UNIT_LOG2 - CELL_LOG2),
    SLICES = 2,
    CELLS = SLICES << (GB_SLICE_LOG2 - CELL_LOG2),
    INSIDE = 255
};
_Static_assert((size_t)UNIT_CELLS <= CELL_BYTES, "a unit's map is its first cell");
_Static_assert(CELLS <= UINT16_MAX, "page->bump counts cells");
_Static_assert(GB_SMALL_CLASSES < INSIDE, "a class is a byte of the map");

/* Returns the byte of the map for this cell. */
static uint8_t *map_of(const gb_page *page, size_t cell)
{
    return (uint8_t *)gb_page_start(page) + (cell / UNIT_CELLS << GB_UNIT_LOG2) + cell % UNIT_CELLS;
}

static uint32_t map_get(const gb_page *page, size_t cell)
{
    return __atomic_load_n(map_of(page, cell), __ATOMIC_RELAXED); /* the owner may carve while another thread frees */
}

/* Returns the first cell of the block, or of the row of blocks, that this cell belongs to. */
static size_t cell_first(const gb_page *page, size_t cell)
{
    while (map_get(page, cell) == INSIDE && cell % UNIT_CELLS > 0)
        cell--;
    return cell;
}

/* Returns how many blocks are carved at once if the first begins in this cell. */
static uint32_t row_blocks(uint32_t cls, size_t cell)
{
    uint32_t blocks = (cell < UNIT_CELLS ? CELL_BYTES : GROUP_BYTES) / gb_classes[cls].bytes;
    return blocks ? blocks : 1;
}

gb_place gb_mixed_locate(const gb_page *page, size_t offset)
{
    const gb_place none = {.cls = GB_MIXED};
    size_t cell = offset >> CELL_LOG2;
    if (cell >= __atomic_load_n(&page->bump, __ATOMIC_RELAXED))
        return none;
    cell = cell_first(page, cell);
    uint32_t mark = map_get(page, cell);
    if (mark == 0 || mark == INSIDE)
        return none;
    size_t bytes = gb_classes[mark - 1].bytes, from = offset - (cell << CELL_LOG2), inside = from % bytes;
    if (from / bytes >= row_blocks(mark - 1, cell))
        return none;
    return (gb_place){mark - 1, (uint32_t)((offset - inside) >> 4), (uint32_t)inside, true};
}

uint32_t gb_mixed_class(const gb_page *page, const void *block)
{
    gb_place at = gb_mixed_locate(page, (uintptr_t)block - gb_page_start(page));
    return at.inside == 0 ? at.cls : GB_MIXED;
}

size_t gb_mixed_mean(const gb_page *page)
{
    size_t bytes = 0, blocks = 0, bump = __atomic_load_n(&page->bump, __ATOMIC_RELAXED);
    for (size_t cell = 1; cell < bump && cell < CELLS; cell++) {
        uint32_t mark = map_get(page, cell);
        if (mark == 0 || mark > GB_SMALL_CLASSES)
            continue;
        blocks += row_blocks(mark - 1, cell);
        bytes += row_blocks(mark - 1, cell) * (size_t)gb_classes[mark - 1].bytes;
    }
    return blocks ? bytes / blocks : 0;
}

gb_page *gb_mixed_page(const glebe_heap *heap)
{
    return heap->mixed.n != GB_MIXED_LATER ? gb_page_if(heap->mixed) : NULL;
}

/* Makes the page at the first call. Returns NULL if the heap may have none, or there is no memory. */
static gb_page *mixed_page(glebe_heap *heap)
{
    if (heap->mixed.n != GB_MIXED_LATER)
        return gb_mixed_page(heap);
    bool zero;
    gb_page *page = gb_run_take(heap, GB_SMALL, SLICES, 1, &zero);
    heap->mixed = page ? gb_page_id_of(page) : GB_NO_PAGE;
    if (page) {
        page->cls = GB_MIXED;
        page->state = GB_CURRENT;
        page->cap = CELLS;
        page->bump = 1;
        heap->gap = heap->gap_end = 0;
        memset(map_of(page, 0), 0, UNIT_CELLS);
    }
    return page;
}

/* Distributes freed blocks to the thread free lists of their classes. Block starts are not verified, as in pages of one
 * class. */
static void mixed_sort(glebe_heap *heap, gb_page *page, bool counts)
{
    gb_block *kept = NULL; /* beyond the next sample of their class: they wait in the page */
    for (gb_block *block = gb_page_list(page), *next; block; block = next) {
        uint32_t mark = map_get(page, cell_first(page, ((uintptr_t)block - gb_page_start(page)) >> CELL_LOG2));
        next = gb_link_get(block);
        if (mark == 0 || mark == INSIDE)
            break; /* not one of our blocks */
        if (GB_SAMPLES && GB_UNLIKELY(counts)) {
            if (heap->sampling.skip[mark - 1] == 0) {
                gb_link_set(block, kept);
                kept = block;
                continue;
            }
            heap->sampling.skip[mark - 1]--;
        }
        gb_link_set(block, heap->front[mark - 1]);
        heap->front[mark - 1] = block;
        page->left++;
    }
    gb_page_list_set(page, kept);
}

/* Returns the first cell at or behind `from` where a row of this class may begin. Blocks are aligned to the power of
 * two in their size, as in pages of their own class. */
static uint32_t row_place(uint32_t from, uint32_t cls, uint32_t *cells)
{
    const gb_class *c = &gb_classes[cls];
    uint32_t step = c->shift > CELL_LOG2 ? 1u << (c->shift - CELL_LOG2) : 1, cell = (from + step - 1) & ~(step - 1);
    for (;; cell = (cell / UNIT_CELLS + 1) * UNIT_CELLS + step) {
        cell += cell % UNIT_CELLS == 0 ? step : 0; /* skip the map */
        *cells = (row_blocks(cls, cell) * c->bytes + CELL_BYTES - 1) >> CELL_LOG2;
        if (cell % UNIT_CELLS + *cells <= UNIT_CELLS)
            return cell;
    }
}

/* Returns the cell of a new row: in the gap if it fits there, else behind the last row. What the new row skips becomes
 * the gap if it is longer than the rest of the last one. Returns CELLS if there is no room. */
static uint32_t row_take(glebe_heap *heap, gb_page *page, uint32_t cls, uint32_t *cells)
{
    uint32_t bump = page->bump, cell = row_place(heap->gap, cls, cells);
    if (cell + *cells <= heap->gap_end) {
        heap->gap = (uint16_t)(cell + *cells);
        return cell;
    }
    cell = row_place(bump, cls, cells);
    if (cell + *cells > CELLS)
        return CELLS;
    if (cell / UNIT_CELLS != (bump - 1) / UNIT_CELLS)
        memset(map_of(page, cell / UNIT_CELLS * UNIT_CELLS), 0, UNIT_CELLS);
    if (cell - bump > (uint32_t)heap->gap_end - heap->gap) {
        heap->gap = (uint16_t)bump;
        heap->gap_end = (uint16_t)cell;
    }
    __atomic_store_n(&page->bump, (uint16_t)(cell + *cells), __ATOMIC_RELAXED);
    return cell;
}

/* Carves a row of blocks onto the thread free list, counted as out. Returns false if there is no room for it. */
static bool mixed_carve(glebe_heap *heap, gb_page *page, uint32_t cls, bool counts)
{
    uint32_t cells, cell = row_take(heap, page, cls, &cells), count = row_blocks(cls, cell),
                    bytes = gb_classes[cls].bytes;
    if (cell == CELLS)
        return false;
    uint32_t most = count; /* blocks before the next sample of the class: others of the row wait in the page */
    if (GB_SAMPLES && GB_UNLIKELY(counts)) {
        most = heap->sampling.skip[cls] < count ? heap->sampling.skip[cls] : count;
        heap->sampling.skip[cls] -= most;
    }
    for (uint32_t i = 1; i < cells; i++)
        __atomic_store_n(map_of(page, cell + i), INSIDE, __ATOMIC_RELAXED);
    __atomic_store_n(map_of(page, cell), cls + 1, __ATOMIC_RELAXED);
    page->left += (int32_t)count;
    for (uintptr_t start = gb_page_start(page) + (cell << CELL_LOG2); count-- > 0;) {
        gb_block *block = (gb_block *)(start + count * bytes);
        if (GB_SAMPLES && GB_UNLIKELY(count >= most)) {
            gb_page_push(page, block);
            page->left--;
            continue;
        }
        gb_link_set(block, heap->front[cls]);
        heap->front[cls] = block;
    }
    return true;
}

bool gb_mixed_supply(glebe_heap *heap, uint32_t cls, bool counts)
{
    gb_page *page = mixed_page(heap);
    if (!page)
        return false;
    if (gb_load_relaxed(&heap->inbox))
        gb_inbox_drain(heap);
    mixed_sort(heap, page, counts);
    /* carves also if the list has a single block: otherwise each malloc would come here */
    gb_block *front = gb_block_or_null(heap->front[cls]);
    bool few = !front || !gb_link_get(front);
    if (GB_SAMPLES && GB_UNLIKELY(counts) && front)
        return true;
    return (few && mixed_carve(heap, page, cls, counts)) || front;
}

void gb_mixed_give(glebe_heap *heap, bool anyway)
{
    gb_page *page = gb_mixed_page(heap);
    if (!page || (page->left > 0 && !anyway))
        return;
    gb_run_give(page);
    heap->mixed.n = GB_MIXED_LATER;
}
