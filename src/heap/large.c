/* Large blocks: over 64 KiB up to 1 MiB, each with a run of slices of its own. They grow in place while the slices
 * behind them are free. From 256 KiB on a block gets an extent, like a huge one, if only an extent has enough touched
 * memory free. */
#include "heap.h"

/* Returns whether an idle extent is long enough, but no run of touched slices. In the secure build blocks get an
 * extent, with a guard behind it, while they are few. */
static bool extents_serve(const gb_request *request, uint32_t slices)
{
    if (GB_SECURE) {
        gb_lock_take(&gb_the.lock);
        bool few = gb_the.huge.blocks < GB_AWAY_MOST / 2;
        gb_lock_drop(&gb_the.lock);
        return few && gb_secure_level() > 1;
    }
    if (request->bytes < GB_GROWN_FROM || request->alignment > GB_SLICE_BYTES)
        return false;
    gb_lock_take(&gb_the.lock);
    bool only = !gb_run_touched(slices) && gb_extent_idle(request->bytes, 0);
    gb_lock_drop(&gb_the.lock);
    return only;
}

/* Linux bounds the mappings of a process (vm.max_map_count). A block in an extent of the secure build takes two. */
static void large_tell(void)
{
    static _Atomic bool told;
    static const char text[] =
        "glebe: the system gives no more mappings, so blocks of 64 KiB to 1 MiB have no guard behind them any more\n";
    if (!atomic_exchange(&told, true))
        gb_port_print(text, sizeof text - 1);
}

void *gb_large_source(glebe_heap *heap, gb_request *request)
{
    uint32_t slices = (uint32_t)(gb_round_up(request->bytes, GB_SLICE_BYTES) >> GB_SLICE_LOG2);
    slices = slices < GB_LARGE_LEAST ? GB_LARGE_LEAST : slices; /* shorter blocks come here if aligned widely */
    uint32_t align = request->alignment > GB_SLICE_BYTES ? (uint32_t)(request->alignment >> GB_SLICE_LOG2) : 1;
    bool zero = false, unguarded = false;
    gb_warm_return(heap);
    if (extents_serve(request, slices)) {
        void *block = gb_huge_source(heap, request);
        if (block || !GB_SECURE)
            return block;
        unguarded = true;
    }
    gb_heap_grows(heap, request->bytes);
    gb_page *page = gb_run_take(heap, GB_LARGE, slices, align, &zero);
    gb_bounds_grew(heap);
    if (unguarded && page && !gb_the.limited) /* else address space ended, and not mappings */
        large_tell();
    request->dirty = zero ? 0 : request->bytes;
    return page ? (void *)gb_large_start(page) : NULL;
}

bool gb_large_resize(void *block, size_t bytes)
{
    if (bytes > GB_LARGE_MAX || bytes <= GB_MEDIUM_MAX)
        return false;
    return gb_run_resize(gb_large_at(block), (uint32_t)(gb_round_up(bytes, GB_SLICE_BYTES) >> GB_SLICE_LOG2));
}
