/* Memory pressure: what is done where memory is about to end, and the program's own part in it.
 *
 *     group of processes (cgroup)              used / limit       done about it
 *     |............................|.......|...|                  looked at by ticks, at most every 200 ms, every 20 from 85 % on
 *     0                           85      95  100 %
 *                                  |       |          (every 5 s while there is no limit: one may be set at any time)
 *                                  |       +-- the heap's and orphans' caches go too; where that does not do, the callback
 *                                  +---------- all that is free goes back at once, due or not
 *
 *     the option `limit`           a request that would pass it, when all caches are gone: the callback, then the request again
 *
 * The callback is the program's, and may do there what it likes, but it comes in the middle of a malloc: that heap's tables are
 * at rest, while whoever called us holds on to some of what they said. So meanwhile the thread has another heap: what is
 * allocated comes from there, and what is freed goes home as if another thread had freed it. After it the other heap is parked
 * as an orphan. A thread in its callback is not called again; others may be, for they have nobody to wait for.
 *
 * 1. No lock is held when the callback is called, and none while fork's handlers run.
 * 2. errno is kept. */

#include "core.h"

static GB_TLS bool pressure_telling; /* this thread is in the callback */

void glebe_on_pressure(glebe_pressure *callback, void *context)
{
    gb_lock_take(&gb_the.lock);
    gb_the.pressure = callback;
    gb_the.pressure_context = context;
    gb_lock_drop(&gb_the.lock);
}

/* false: there is nobody to tell. */
static bool pressure_tell(uint64_t used, uint64_t limit)
{
    if (pressure_telling || gb_lock_forking())
        return false;
    gb_lock_take(&gb_the.lock);
    glebe_pressure *callback = gb_the.pressure;
    void *context = gb_the.pressure_context;
    gb_lock_drop(&gb_the.lock);
    if (!callback)
        return false;
    int saved = errno;
    glebe_heap *self = gb_thread_leave();
    pressure_telling = true;
    callback(context, used, limit);
    pressure_telling = false;
    gb_thread_return(self);
    errno = saved;
    return true;
}

void gb_pressure_look(glebe_heap *heap, uint32_t now)
{
    enum { EVERY_MS = 200, SOON_MS = 20, UNLIMITED_MS = 5000, TELL_MS = 1000, FROM_SLICES = 64 << (20 - GB_SLICE_LOG2) };
    uint64_t limit, used;
    if (gb_ms_since(now, gb_load_relaxed(&gb_the.pressure_ms)) < gb_load_relaxed(&gb_the.pressure_every_ms) || gb_load_relaxed(&gb_the.slices) < FROM_SLICES)
        return;
    gb_store_relaxed(&gb_the.pressure_ms, now);
    gb_store_relaxed(&gb_the.pressure_every_ms, UNLIMITED_MS);
    if (!gb_port_pressure(&limit, &used))
        return;
    uint64_t high = limit / 20 * 17, critical = limit / 20 * 19;
    gb_store_relaxed(&gb_the.pressure_every_ms, used > high ? SOON_MS : EVERY_MS);
    if (used <= high || gb_ms_since(now, gb_load_relaxed(&gb_the.pressure_done_ms)) < EVERY_MS)
        return;
    gb_store_relaxed(&gb_the.pressure_done_ms, now);
    if (used <= critical) {
        gb_purge_due(now, true);
        return;
    }
    glebe_collect(heap);
    if (!gb_port_pressure(&limit, &used) || used <= critical || gb_ms_since(now, gb_load_relaxed(&gb_the.pressure_told_ms)) < TELL_MS)
        return;
    gb_store_relaxed(&gb_the.pressure_told_ms, now);
    if (pressure_tell(used, limit))
        glebe_collect(heap);
}

bool gb_pressure_refused(glebe_heap *heap)
{
    gb_lock_take(&gb_the.lock);
    size_t bytes = heap->refused_bytes, limit = gb_the.options.limit, used = (size_t)glebe_live.stats.used_bytes;
    gb_lock_drop(&gb_the.lock);
    if (bytes == 0 || bytes > limit || bytes <= limit - (used < limit ? used : limit) || !pressure_tell(used, limit))
        return false;
    glebe_collect(heap);
    return true;
}
