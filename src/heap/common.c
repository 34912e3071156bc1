/* Common heaps: for threads that allocate seldom. A heap of its own costs a thread 50 to 400 KB. They stay while the
 * thread sleeps, because only the owner thread may touch the heap's free lists. So if there are many heaps, a further
 * thread begins without one. Each of its requests takes the lock of a common heap, and is served from there:
 *
 *     thread without heap  -- request -->  common heap 1, if no other thread is in it; else 2; else 3 ...
 *                          -- free ----->  a remote free, as of any other heap's block: remote.c
 *
 * There are only as many common heaps as threads were ever in one at once. A thread that allocates often gets a heap of
 * its own: gb_common_enter then returns NULL. A common heap that no thread entered for purge_ms rests like other heaps,
 * at the ticks of any thread.
 *
 * The lock of a common heap is taken before the lock of abandoned heaps and the region's lock. The thread that holds it
 * is the heap's owner. That thread calls no function of the program, and waits for no other common heap. A thread that
 * forks holds all of these locks, so the child can use the heaps. */
#include "heap.h"

static GB_TLS uint32_t common_requests; /* of this thread */
static GB_TLS uint32_t common_since_ms; /* when the current series of GB_COMMON_REQUESTS requests began */

/* Counts a request. Returns whether this thread allocates so often that a heap of its own pays. */
static bool common_outgrown(void)
{
    if (common_requests++ % GB_COMMON_REQUESTS != 0)
        return false;
    uint32_t now = gb_port_now_ms(), since = common_since_ms;
    common_since_ms = now;
    return common_requests > 1 && gb_ms_since(now, since) < GB_COMMON_MS;
}

/* The caller holds its lock. Returns false if there is no memory for the heap. */
static bool common_make(gb_common *common)
{
    if (gb_load_relaxed(&common->heap))
        return true;
    glebe_heap *heap = gb_heap_new(GB_HEAP_COMMON);
    gb_store_relaxed(&common->heap, heap ? heap->number.n : 0);
    return heap != NULL;
}

gb_common *gb_common_enter(void)
{
    if (gb_load_relaxed(&gb_the.records.in_use) < GB_FEW_HEAPS || gb_load_relaxed(&gb_the.abandoned.first)
        || common_outgrown())
        return NULL;
    uint32_t i = 0;
    while (i < GB_COMMON_HEAPS - 1 && !gb_lock_try(&gb_the.common[i].lock))
        i++;
    gb_common *common = &gb_the.common[i];
    if (i == GB_COMMON_HEAPS - 1)
        gb_lock_take(&common->lock);
    if (common_make(common))
        return common;
    gb_lock_drop(&common->lock);
    return NULL;
}

glebe_heap *gb_common_heap(const gb_common *common)
{
    return gb_heap_at((gb_heap_id){gb_load_relaxed(&common->heap)});
}

void gb_common_leave(gb_common *common)
{
    gb_lock_drop(&common->lock);
}

gb_common *gb_common_try(uint32_t number, bool silent, uint32_t now)
{
    gb_common *common = &gb_the.common[number % GB_COMMON_HEAPS];
    if (!gb_load_relaxed(&common->heap) || !gb_lock_try(&common->lock))
        return NULL;
    const glebe_heap *heap = gb_common_heap(common);
    if (!silent || heap->rests || gb_ms_since(now, heap->tick_ms) >= gb_the.options.purge_ms)
        return common;
    gb_lock_drop(&common->lock);
    return NULL;
}

static void commons_hold(bool begins)
{
    for (uint32_t i = 0; i < GB_COMMON_HEAPS; i++)
        if (begins)
            gb_lock_take(&gb_the.common[i].lock);
        else
            gb_lock_drop(&gb_the.common[i].lock);
}

void gb_heaps_lock(void)
{
    commons_hold(true);
    if (GB_SAMPLES)
        gb_lock_take(&gb_the.sampler.lock);
    gb_lock_take(&gb_the.abandoned.lock);
    gb_lock_take(&gb_the.lock);
}

void gb_heaps_unlock(void)
{
    gb_lock_drop(&gb_the.lock);
    gb_lock_drop(&gb_the.abandoned.lock);
    if (GB_SAMPLES)
        gb_lock_drop(&gb_the.sampler.lock);
    commons_hold(false);
}
