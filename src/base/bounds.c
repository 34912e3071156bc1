/* How much freed memory may be kept: of each heap, and of the process. The retainer's decisions that lower layers need
 * while they work; retain.c has the others, and does what follows from them. Nothing here frees or purges anything. */
#include "base.h"

/* ---- of the process. Under the region's lock. ---- */

/* What was touched and is free, but for blocks of pages in use. */
static size_t idle_bytes(void)
{
    return (gb_the.arena.dirty_slices << GB_SLICE_LOG2) + (size_t)glebe_live.stats.huge_retained_bytes;
}

size_t gb_bounds_over(void)
{
    size_t used = (size_t)glebe_live.stats.used_bytes, huge = (size_t)glebe_live.stats.huge_bytes;
    size_t huge_share = huge > GB_KEPT_HUGE_FROM ? (huge - GB_KEPT_HUGE_FROM) / GB_KEPT_HUGE_SHARE : 0;
    size_t most = used + used / GB_KEPT_SHARE + GB_KEPT_BYTES + huge_share, now = used + idle_bytes();
    most += gb_the.spans.huge ? GB_CHUNK_BYTES : 0; /* of the huge page that a block ends in the rest is idle */
    if (most > gb_the.kept.peak_bytes)
        gb_the.kept.peak_bytes = most;
    return now > gb_the.kept.peak_bytes ? now - gb_the.kept.peak_bytes : 0;
}

/* Of huge blocks no more is kept than a quarter of what is in use, and 16 MiB. Idle memory is counted in granules, so a
 * block may leave more of it than it had. */
size_t gb_bounds_extents(void)
{
    size_t most = ((size_t)16 << 20) + (size_t)glebe_live.stats.huge_bytes / 4, kept = (size_t)glebe_live.stats.huge_retained_bytes;
    return kept > most ? kept - most : 0;
}

void gb_bounds_changed(void)
{
    if (gb_bounds_over() || gb_bounds_extents())
        gb_store_relaxed(&gb_the.kept.over, true);
}

/* ---- of a heap. Owner. ---- */

/* Many heaps share what few may have. An abandoned heap has no use for any. */
bool gb_bounds_spare(const glebe_heap *heap, size_t bytes)
{
    enum { FEW = 16 };
    uint64_t heaps = glebe_live.stats.heaps; /* a hint */
    size_t most = gb_the.options.background ? (size_t)128 << 10 : ((size_t)512 << 10) + heap->small_bytes / 16;
    most = heaps > FEW ? (size_t)(most * FEW / heaps) : most;
    return !gb_heap_abandoned(heap) && heap->spare_bytes + bytes <= most;
}

/* Looking for holes costs a walk over the page. With the background thread the program may go to sleep and never come
 * by again, so a page is searched as it empties: when an eighth of its blocks is in use it is parked, or, where it is
 * too small for that, walked, and again at a sixteenth, and so on. A program that fills and frees all it has, again and
 * again, would pay for that in vain: within purge_ms the heap does it twice as often as it has pages, and no more.
 * Without the background thread the heap does it page by page while it rests. */
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
