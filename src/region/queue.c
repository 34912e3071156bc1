/* The queue of chunks in which memory was freed, and the only function that purges chunk memory. The purger
 * (purge.c) takes the chunks that have waited longest. The background thread sleeps while the queue is empty, and the
 * first chunk wakes it. The region's lock guards the queue. */
#include "region.h"

void gb_background_nudge(void)
{
    if (gb_load_relaxed(&gb_the.background_state) == GB_BACKGROUND_SLEEPS) {
        gb_store(&gb_the.background_state, GB_BACKGROUND_RUNS);
        gb_port_wake(&gb_the.background_state);
    }
}

void gb_purge_queue(gb_chunk *chunk)
{
    gb_store_relaxed(&chunk->touched_ms, gb_load_relaxed(&gb_the.now_ms));
    if (gb_load_relaxed(&chunk->queued))
        return;
    gb_store_relaxed(&chunk->queued, 1);
    chunk->queued_ms = gb_port_now_ms();
    if (!gb_the.kept.queue.ends.first)
        gb_background_nudge();
    gb_queue_insert(gb_chunks_linked(offsetof(gb_chunk, waits)), &gb_the.kept.queue, &chunk->waits, 0);
}

void gb_purge_note(const gb_page *page)
{
    gb_chunk *chunk = gb_chunk_of(gb_slice_of(page));
    uint32_t now = gb_load_relaxed(&gb_the.now_ms);
    if (gb_load_relaxed(&chunk->touched_ms) != now)
        atomic_exchange(&chunk->touched_ms, now);
    /* purge_queued clears `queued`, then reads touched_ms: at least one of the two threads sees the other's write */
    if (atomic_load(&chunk->queued))
        return;
    gb_lock_take(&gb_the.lock);
    gb_purge_queue(chunk);
    gb_lock_drop(&gb_the.lock);
}

enum gb_purge gb_purge_range(uintptr_t at, size_t bytes, bool lazily, gb_purge_budget *budget)
{
    budget->calls -= budget->calls > 0;
    budget->bytes -= bytes < budget->bytes ? bytes : budget->bytes;
    if (bytes == 0)
        return GB_PURGE_REFUSED;
    enum gb_purge done = gb_port_purge(at, bytes, lazily);
    if (done != GB_PURGE_REFUSED) {
        glebe_live.stats.purges++;
        glebe_live.stats.purged_bytes += bytes;
    } else
        budget->refused = true;
    return done;
}
