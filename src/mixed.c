/* The first small blocks of a program's heap: many classes in one page.
 *
 *     |  map  | 32 32 32 32 32 32 32 32 | 48 48 48 48 48  | 384           ... | 64 64 64 64 |  never used  |
 *      cell 0   cell 1                    cell 2            cells 3 and 4       cell 5         bump = 6
 *
 * A page for each class costs an OS page for the first block of each. That is nothing to a process, and most of what a program has that
 * makes a heap for each Lua state or each request: a fresh state's 300 blocks are of 12 classes. Here a class takes a cell of 256 bytes
 * at a time, or as many as one block is long.
 *
 * The map has a byte for each cell: 0, nothing yet; a class + 1; INSIDE, a cell that a block goes on in. To free() the page is a small
 * one like others: blocks go on page->free. From there they are sorted to the fronts of their classes when one of those is empty.
 * A page that is full stays what it is, and every class gets pages of its own from then on. */
#include "core.h"

enum { CELL_LOG2 = 8, CELL_BYTES = 1 << CELL_LOG2, SLICES = 2, CELLS = SLICES << (GB_SLICE_LOG2 - CELL_LOG2), INSIDE = 255 };
_Static_assert(CELLS <= CELL_BYTES, "the map is in the first cell");
_Static_assert(GB_SMALL_CLASSES < INSIDE, "a class is a byte of the map");

static uint8_t *map_of(const gb_page *page)
{
    return (uint8_t *)gb_page_start(page);
}

static uint32_t map_get(const gb_page *page, size_t cell)
{
    return __atomic_load_n(map_of(page) + cell, __ATOMIC_RELAXED); /* a free by another thread looks at it */
}

/* The cell where the block begins that has bytes in this one. */
static size_t cell_first(const gb_page *page, size_t cell)
{
    while (map_get(page, cell) == INSIDE && cell > 1)
        cell--;
    return cell;
}

gb_place gb_mixed_locate(const gb_page *page, size_t offset)
{
    const gb_place none = {.cls = GB_MIXED};
    size_t cell = cell_first(page, offset >> CELL_LOG2);
    uint32_t mark = map_get(page, cell);
    if (cell == 0 || mark == 0)
        return none;
    size_t bytes = gb_classes[mark - 1].bytes, from = offset - (cell << CELL_LOG2), inside = from % bytes;
    if (from > inside && from - inside + bytes > CELL_BYTES)
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
    size_t bytes = 0, blocks = 0;
    for (size_t cell = 1; cell < CELLS; cell++) {
        uint32_t mark = map_get(page, cell);
        if (mark == 0 || mark == INSIDE)
            continue;
        size_t each = gb_classes[mark - 1].bytes, count = each < CELL_BYTES ? CELL_BYTES / each : 1;
        bytes += count * each;
        blocks += count;
    }
    return blocks ? bytes / blocks : 0;
}

gb_page *gb_mixed_page(const glebe_heap *heap)
{
    return heap->mixed != 0 && heap->mixed != GB_MIXED_LATER ? gb_page_at(heap->mixed) : NULL;
}

/* Made on first use; NULL where the heap may have none, or there is no memory for one. */
static gb_page *mixed_page(glebe_heap *heap)
{
    if (heap->mixed != GB_MIXED_LATER)
        return gb_mixed_page(heap);
    bool zero;
    gb_page *page = gb_run_take(heap, GB_SMALL, SLICES, 1, &zero);
    heap->mixed = page ? gb_page_number(page) : 0;
    if (page) {
        page->cls = GB_MIXED;
        page->state = GB_CURRENT;
        page->cap = CELLS;
        page->bump = 1;
        memset(map_of(page), 0, CELLS);
    }
    return page;
}

/* What came home goes to the fronts of its classes. That a block begins there is as little asked as where a page has one class. */
static void mixed_sort(glebe_heap *heap, gb_page *page)
{
    for (gb_block *block = page->free, *next; block; block = next) {
        uint32_t mark = map_get(page, cell_first(page, ((uintptr_t)block - gb_page_start(page)) >> CELL_LOG2));
        next = gb_link_get(block);
        if (mark == 0 || mark == INSIDE)
            break; /* none of ours */
        gb_link_set(block, heap->front[mark - 1]);
        heap->front[mark - 1] = block;
        page->left++;
    }
    page->free = NULL;
}

/* A cell's blocks go on the front, counted as out; false if no cell is left. Blocks lie on multiples of the power of two in their size, as
 * in pages of their own. */
static bool mixed_carve(glebe_heap *heap, gb_page *page, uint32_t cls)
{
    uint32_t bytes = gb_classes[cls].bytes, cells = (bytes + CELL_BYTES - 1) >> CELL_LOG2, count = cells > 1 ? 1 : CELL_BYTES / bytes;
    uint32_t step = gb_classes[cls].shift > CELL_LOG2 ? 1u << (gb_classes[cls].shift - CELL_LOG2) : 1;
    uint32_t cell = (page->bump + step - 1) & ~(step - 1);
    if (cell + cells > CELLS)
        return false;
    for (uint32_t i = 1; i < cells; i++)
        __atomic_store_n(map_of(page) + cell + i, INSIDE, __ATOMIC_RELAXED);
    __atomic_store_n(map_of(page) + cell, cls + 1, __ATOMIC_RELAXED);
    page->bump = (uint16_t)(cell + cells);
    page->left += (int32_t)count;
    for (uintptr_t start = gb_page_start(page) + (cell << CELL_LOG2); count-- > 0;) {
        gb_block *block = (gb_block *)(start + count * bytes);
        gb_link_set(block, heap->front[cls]);
        heap->front[cls] = block;
    }
    return true;
}

bool gb_mixed_supply(glebe_heap *heap, uint32_t cls)
{
    gb_page *page = mixed_page(heap);
    if (!page)
        return false;
    if (gb_load_relaxed(&heap->inbox))
        gb_inbox_drain(heap);
    mixed_sort(heap, page);
    bool few = !heap->front[cls] || !gb_link_get(heap->front[cls]); /* one block alone would bring the heap here at each call */
    return (few && mixed_carve(heap, page, cls)) || heap->front[cls];
}

void gb_mixed_give(glebe_heap *heap, bool anyway)
{
    gb_page *page = gb_mixed_page(heap);
    if (!page || (page->left > 0 && !anyway))
        return;
    gb_run_give(page);
    heap->mixed = GB_MIXED_LATER;
}
