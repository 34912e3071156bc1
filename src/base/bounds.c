/* How much freed memory to retain, for each heap and for the process: the decisions on retention that lower layers
 * need while they work. retain.c makes the other decisions, and acts on all of them. Nothing here frees or purges
 * memory. */
#include "base.h"

/* ---- the process. Under the region's lock. ---- */

/* Free memory that was touched, except blocks of pages in use. */
static size_t idle_bytes(void)
{
    return (gb_the.arena.dirty_slices << GB_SLICE_LOG2) + (size_t)glebe_live.stats.huge_retained_bytes;
}

size_t gb_bounds_over(void)
{
    const glebe_stats *stats = &glebe_live.stats;
    size_t huge = (size_t)stats->huge_bytes, beyond = huge > GB_KEPT_HUGE_FROM ? huge - GB_KEPT_HUGE_FROM : 0,
           share = huge / GB_KEPT_HUGE_SHARE;
    size_t used = (size_t)stats->used_bytes, now = used + idle_bytes();
    size_t most = used + used / GB_KEPT_SHARE + GB_KEPT_BYTES + (size_t)stats->large_bytes / GB_KEPT_LARGE_SHARE
        + (share < beyond ? share : beyond);
    most += gb_the.spans.huge ? GB_CHUNK_BYTES : 0; /* the rest of a huge page that a block ends in is idle */
    size_t peak = gb_load_relaxed(&gb_the.kept.peak_bytes);
    if (most > peak)
        gb_store_relaxed(&gb_the.kept.peak_bytes, peak = most);
    return now > peak ? now - peak : 0;
}

/* Retained huge blocks: at most a quarter of the huge bytes in use, plus 16 MiB. Idle memory is counted in granules,
 * so a freed block may add more than its own bytes. */
size_t gb_bounds_extents(void)
{
    size_t most = ((size_t)16 << 20) + (size_t)glebe_live.stats.huge_bytes / 4,
           kept = (size_t)glebe_live.stats.huge_retained_bytes;
    return kept > most ? kept - most : 0;
}

void gb_bounds_changed(void)
{
    if (gb_bounds_over() || gb_bounds_extents())
        gb_store_relaxed(&gb_the.kept.over, true);
}

/* ---- a heap. Owner. ---- */

/* If there are more than `few` heaps, they share the amount that `few` heaps may retain. */
static size_t heap_share(size_t most, uint32_t few)
{
    uint32_t heaps = gb_load_relaxed(&gb_the.records.in_use);
    return heaps > few ? most * few / heaps : most;
}

/* An abandoned heap retains nothing. */
bool gb_bounds_spare(const glebe_heap *heap, size_t bytes)
{
    size_t most = gb_the.options.background ? (size_t)128 << 10 : ((size_t)512 << 10) + heap->small_bytes / 16;
    return !gb_heap_abandoned(heap) && heap->spare_bytes + bytes <= heap_share(most, 16);
}

/* A sleeping thread does not return its warm blocks. With the background thread the whole program may sleep, so heaps
 * keep none. */
bool gb_bounds_warm(const glebe_heap *heap, size_t bytes)
{
    return !gb_the.options.background && heap->warm_bytes + bytes <= heap_share(GB_WARM_BYTES, 4);
}

/* A search for holes walks the page. With the background thread the program may sleep and never call malloc again,
 * so a page is searched as it empties. When an eighth of its blocks is in use the page is parked. A page that is too
 * small to park is walked then, again at a sixteenth, and so on.
 *
 * A program that fills and frees all its memory again and again would pay for such searches in vain. So within
 * purge_ms a heap does at most 64 searches plus one for each two slices of its small pages. Without the background
 * thread the heap searches page by page while it rests. */
bool gb_bounds_look(glebe_heap *heap)
{
    if (heap->looks_left == 0) {
        uint32_t now = gb_load_relaxed(&gb_the.now_ms);
        if (gb_ms_since(now, heap->looks_ms) < gb_the.options.purge_ms)
            return false;
        heap->looks_ms = now;
        heap->looks_left = (uint32_t)(heap->small_bytes / (2 * GB_SLICE_BYTES)) + 64;
    }
    heap->looks_left--;
    return true;
}

bool gb_bounds_grow(glebe_heap *heap, size_t bytes)
{
    size_t held = gb_load_relaxed(&heap->bytes);
    if (held + bytes <= heap->grown_bytes)
        return false;
    heap->grown_bytes = held + held / 64;
    return true;
}

void gb_bounds_grew(glebe_heap *heap)
{
    size_t held = gb_load_relaxed(&heap->bytes);
    if (held > heap->grown_bytes)
        heap->grown_bytes = held;
}
