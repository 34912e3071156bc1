/* Heaps where memory is linear and there are no threads: the one that malloc uses is a static object, so that every
 * access to it is to an address that the compiler knows; one of glebe_heap_create lies in a page of that heap, whose
 * slice is its number. And what the layers that are not there would answer: nothing is purged, no other thread
 * frees, no block is medium, large or huge. */
#include "../serve/alloc.h"

glebe_heap gb_heap_main;

static void heap_begin(glebe_heap *heap, uint32_t number, enum gb_heap_kind kind)
{
    heap->number = number;
    gb_store_relaxed(&heap->kind, kind);
    glebe_live.stats.heaps++;
}

glebe_heap *gb_thread_start(void)
{
    if (gb_heap_main.number == 0) {
        gb_region_start();
        heap_begin(&gb_heap_main, GB_HEAP_MAIN, GB_HEAP_THREAD);
    }
    return &gb_heap_main;
}

glebe_heap *gb_heap_new(enum gb_heap_kind kind)
{
    bool zero;
    gb_page *page = gb_run_take(
        gb_thread_start(), GB_LARGE, (uint32_t)((sizeof(glebe_heap) + GB_SLICE_BYTES - 1) >> GB_SLICE_LOG2), 1, &zero);
    if (!page)
        return NULL;
    glebe_heap *heap = (glebe_heap *)gb_page_start(page);
    page->cls = GB_HOLDS_HEAP;
    memset(heap, 0, sizeof *heap);
    heap_begin(heap, gb_page_number(page), kind);
    return heap;
}

void gb_heap_retire(glebe_heap *heap)
{
    heap->kind = GB_HEAP_UNUSED;
    glebe_live.stats.heaps--;
    gb_run_give(gb_page_entry(heap));
}

size_t gb_retain_nothing(glebe_heap *heap)
{
    if (heap->number != 0)
        gb_heap_trim(heap);
    gb_tagged_cool();
    return 0;
}

bool gb_make_room(glebe_heap *heap)
{
    size_t held = gb_load_relaxed(&heap->bytes);
    gb_retain_nothing(heap);
    return gb_load_relaxed(&heap->bytes) < held;
}

/* ---- what is not there ---- */

#define ABSENT(result, name, parameters, answer) \
    result name parameters { answer; }

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
ABSENT(glebe_heap *, gb_heap_next, (const glebe_heap *before), return NULL)
ABSENT(void, gb_thread_late, (void), )
ABSENT(void, gb_tick, (glebe_heap *heap), )
ABSENT(void, gb_background_start, (void), )
ABSENT(bool, gb_orphans_rob, (glebe_heap *heap, uint32_t cls), return false)
ABSENT(bool, gb_inbox_drain, (glebe_heap *heap), return false)
ABSENT(void, gb_inbox_drain_some, (glebe_heap *heap), )
ABSENT(void, gb_remote_free, (glebe_heap *from, gb_page *page, gb_block *block), )

ABSENT(void, gb_retain_collected, (void), )

ABSENT(unsigned, gb_hole_take, (gb_page *page), return 0)
ABSENT(uint32_t, gb_hole_blocks, (const gb_page *page, uint32_t units), return 0)
ABSENT(gb_block *, gb_hole_carve, (gb_page *page), return NULL)
ABSENT(uint32_t, gb_page_trim, (gb_page *page, uint32_t coming, bool now), return 0)
ABSENT(void, gb_page_park, (gb_page *page), )
ABSENT(void, gb_page_unpark, (gb_page *page), )
ABSENT(bool, gb_parked_put, (gb_page *page, gb_block *block), return false)

ABSENT(void *, gb_medium_claim, (glebe_heap *heap, gb_request *request), return NULL)
ABSENT(void *, gb_medium_source, (glebe_heap *heap, gb_request *request), return NULL)
ABSENT(bool, gb_medium_return, (glebe_heap *self, gb_page *page, void *block), return false)

ABSENT(void *, gb_large_source, (glebe_heap *heap, gb_request *request), return NULL)
ABSENT(bool, gb_large_resize, (void *block, size_t bytes), return false)
ABSENT(void *, gb_huge_source, (glebe_heap *heap, gb_request *request), return NULL)
ABSENT(void, gb_huge_free, (gb_extent *extent), )
ABSENT(void *, gb_huge_resize, (gb_extent *extent, size_t bytes), return NULL)
ABSENT(gb_extent *, gb_huge_find, (const void *address), return NULL)
ABSENT(void, gb_huge_clear, (void *start, size_t bytes), )
ABSENT(gb_extent *, gb_extent_of, (const void *address), return NULL)
ABSENT(uintptr_t, gb_extent_start, (const gb_extent *extent), return 0)
#pragma GCC diagnostic pop

/* No page is parked. */
bool gb_page_put(gb_page *page, gb_block *block)
{
    gb_link_set(block, page->free);
    page->free = block;
    return true;
}
