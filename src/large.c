/* Large blocks: over 64 KiB up to 1 MiB, a run of slices each. They grow in place while the slices behind them are free. */
#include "core.h"

void *gb_large_alloc(glebe_heap *heap, size_t bytes, size_t alignment, bool *zero)
{
    uint32_t slices = (uint32_t)(gb_round_up(bytes, GB_SLICE_BYTES) >> GB_SLICE_LOG2);
    uint32_t align = alignment > GB_SLICE_BYTES ? (uint32_t)(alignment >> GB_SLICE_LOG2) : 1;
    gb_tick(heap);
    gb_heap_grows(heap, bytes);
    gb_page *page = gb_run_take(heap, GB_LARGE, slices, align, zero);
    if (!page && gb_make_room(heap))
        page = gb_run_take(heap, GB_LARGE, slices, align, zero);
    return page ? (void *)gb_page_start(page) : gb_out_of_memory();
}

bool gb_large_resize(gb_page *page, size_t bytes)
{
    if (bytes > GB_LARGE_MAX || bytes <= GB_MEDIUM_MAX)
        return false;
    return gb_run_resize(page, (uint32_t)(gb_round_up(bytes, GB_SLICE_BYTES) >> GB_SLICE_LOG2));
}
