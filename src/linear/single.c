/* Heaps in linear memory, without a heap for each thread. malloc's heap is a static object, so the compiler knows the
 * address of each access. A heap of glebe_heap_create is in a large block of malloc's heap; its number is the slice of
 * the block. */
#include "../serve/alloc.h"

static void heap_begin(glebe_heap *heap, gb_heap_id number, enum gb_heap_kind kind)
{
    heap->number = number;
    gb_store_relaxed(&heap->kind, kind);
    glebe_live.stats.heaps++;
}

glebe_heap *gb_thread_start(void)
{
    if (gb_heap_main.number.n == 0) {
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
    heap_begin(heap, (gb_heap_id){gb_slice_of(page)}, kind);
    return heap;
}

void gb_heap_retire(glebe_heap *heap)
{
    heap->kind = GB_HEAP_UNUSED;
    glebe_live.stats.heaps--;
    gb_run_give(gb_page_entry(heap));
}

void gb_heaps_lock(void)
{
    gb_lock_take(&gb_the.lock);
}

void gb_heaps_unlock(void)
{
    gb_lock_drop(&gb_the.lock);
}

size_t gb_retain_nothing(glebe_heap *heap)
{
    if (heap->number.n != 0)
        gb_heap_trim(heap, false);
    gb_tagged_cool();
    return 0;
}

bool gb_make_room(glebe_heap *heap)
{
    size_t held = gb_load_relaxed(&heap->bytes);
    gb_retain_nothing(heap);
    return gb_load_relaxed(&heap->bytes) < held;
}

/* Heaps of glebe_heap_create are in large blocks of malloc's heap, so its list finds them. */
glebe_heap *gb_heap_next(const glebe_heap *before)
{
    if (!before)
        return gb_heap_main.number.n ? &gb_heap_main : NULL;
    const gb_page *page = before == &gb_heap_main ? gb_list_first(&gb_heap_main.large)
                                                  : gb_list_next(gb_page_entry(before));
    while (page && page->cls != GB_HOLDS_HEAP)
        page = gb_list_next(page);
    return page ? (glebe_heap *)gb_page_start(page) : NULL;
}
