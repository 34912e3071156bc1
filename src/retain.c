/* Retention: which freed memory is kept for reuse, and when it goes back to the system. This file alone decides; the
 * others tell it what happens, and do what it says.
 *
 *     what is kept                     how much                               until
 *     warm blocks (medium)             one of each class                      16 ms pass, or the heap grows
 *     spare pages (small, empty)       512 KiB and a 16th of the heap's       the heap rests, or grows
 *                                      small pages; less where heaps are many
 *     idle slices and extents          a 16th of what was in use at most,     purge_ms pass after they were freed
 *                                      for huge blocks an 8th more
 *     free blocks of pages in use      all                                    the heap rests: then whole OS pages go
 *     pages of abandoned heaps         all, for any heap that needs some      the same, a heap at a time
 *
 * Events: a page or an extent becomes free (gb_retain_spare, gb_retain_extents), untouched memory is handed out
 * (gb_retain_touched), a heap grows (gb_retain_grows), a slow allocation passes (gb_tick), one fails (gb_make_room), a
 * collection ends (gb_retain_collected).
 *
 * A heap rests when purge_ms pass between two looks at the clock: its program went quiet. From then on each slow event
 * does one step. First a step gives spare pages back. Later ones walk over 16,384 blocks, or 0.4 ms and one page long,
 * and purge 2 MiB or 96 pieces. Each step goes on where the last one stopped, so no request pays for more. The
 * background thread purges in the same steps, one after the other. */
#include "core.h"

/* ---- how much is kept ---- */

/* Many heaps share what few may have. An abandoned heap has no use for any. */
bool gb_retain_spare(const glebe_heap *heap, size_t bytes)
{
    enum { FEW = 16 };
    uint64_t heaps = glebe_live.stats.heaps; /* a hint */
    size_t most = gb_the.options.background ? (size_t)128 << 10 : ((size_t)512 << 10) + heap->small_bytes / 16;
    most = heaps > FEW ? (size_t)(most * FEW / heaps) : most;
    return !gb_heap_abandoned(heap) && heap->spare_bytes + bytes <= most;
}

/* What was touched and is free, but for blocks of pages in use. */
static size_t idle_bytes(void)
{
    return (gb_the.dirty_slices << GB_SLICE_LOG2) + (size_t)glebe_live.stats.huge_cached_bytes;
}

/* If in-use plus idle memory passes the allowed peak the excess goes back, oldest first. If the system refuses to take
 * memory back the peak is raised by a share, so that the next request does not ask in vain at once. */
void gb_retain_touched(void)
{
    size_t used = (size_t)glebe_live.stats.used_bytes, huge = (size_t)glebe_live.stats.huge_bytes;
    size_t huge_share = huge > GB_KEPT_HUGE_FROM ? (huge - GB_KEPT_HUGE_FROM) / GB_KEPT_HUGE_SHARE : 0;
    size_t most = used + used / GB_KEPT_SHARE + GB_KEPT_BYTES + huge_share, now = used + idle_bytes();
    most += gb_the.spans_huge ? GB_CHUNK_BYTES : 0; /* of the huge page that a block ends in the rest is idle */
    if (most > gb_the.peak_bytes)
        gb_the.peak_bytes = most;
    if (now > gb_the.peak_bytes) {
        size_t over = now - gb_the.peak_bytes, given = gb_purge_oldest(over);
        if (given < over)
            gb_the.peak_bytes = now - given + (now - given) / GB_KEPT_SHARE;
    }
}

/* Of huge blocks no more is kept than a quarter of what is in use, and 16 MiB. Idle memory is counted in granules, so a
 * block may leave more of it than it had. */
void gb_retain_extents(void)
{
    size_t most = ((size_t)16 << 20) + (size_t)glebe_live.stats.huge_bytes / 4;
    if (glebe_live.stats.huge_cached_bytes > most)
        gb_extents_shrink((size_t)glebe_live.stats.huge_cached_bytes - most);
    gb_retain_touched();
}

/* Before a heap becomes larger than it ever was, what it kept for reuse by some class becomes free for all. The secure
 * build keeps its spare pages. */
void gb_retain_grows(glebe_heap *heap, size_t bytes)
{
    size_t held = gb_load_relaxed(&heap->bytes);
    if (held + bytes <= heap->grown_bytes)
        return;
    heap->grown_bytes = held + held / 64;
    gb_medium_trim(heap);
    if (!GB_SECURE)
        gb_spares_give(heap, UINT32_MAX);
}

void gb_retain_grew(glebe_heap *heap)
{
    size_t held = gb_load_relaxed(&heap->bytes);
    if (held > heap->grown_bytes)
        heap->grown_bytes = held;
}

/* Looking for holes costs a walk over the page. With the background thread the program may go to sleep and never come
 * by again, so a page is searched as it empties: when an eighth of its blocks is in use it is parked, or, where it is
 * too small for that, walked, and again at a sixteenth, and so on. A program that fills and frees all it has, again and
 * again, would pay for that in vain: within purge_ms the heap does it twice as often as it has pages, and no more.
 * Without the background thread the heap does it page by page while it rests. */
bool gb_retain_may_look(glebe_heap *heap)
{
    if (heap->trims_left == 0) {
        uint32_t now = gb_load_relaxed(&gb_the.now_ms);
        if (gb_ms_since(now, heap->trims_ms) < gb_the.options.purge_ms)
            return false;
        heap->trims_ms = now;
        heap->trims_left = (uint32_t)(heap->small_bytes / (2 * GB_SLICE_BYTES)) + 64;
    }
    heap->trims_left--;
    return true;
}

/* ---- all of it at once ---- */

static void heap_retain_nothing(glebe_heap *heap)
{
    if (heap->number == 0)
        return;
    gb_remote_flush(heap);
    gb_inbox_drain(heap);
    gb_heap_trim(heap);
    gb_medium_trim(heap);
}

size_t gb_retain_nothing(glebe_heap *heap)
{
    heap_retain_nothing(heap);
    gb_orphans_trim();
    return gb_purge_due(gb_port_now_ms(), true);
}

/* The heap's last request does not fit: true if the process's limit was why, and the program was told of it. */
static bool limit_told(glebe_heap *heap)
{
    gb_lock_take(&gb_the.lock);
    size_t bytes = heap->refused_bytes, limit = gb_the.options.limit, used = (size_t)glebe_live.stats.used_bytes;
    gb_lock_drop(&gb_the.lock);
    bool fits = bytes <= limit - (used < limit ? used : limit);
    if (bytes == 0 || bytes > limit || fits || !gb_pressure_tell(used, limit))
        return false;
    gb_retain_nothing(heap);
    return true;
}

bool gb_make_room(glebe_heap *heap)
{
    size_t held = gb_load_relaxed(&heap->bytes);
    heap_retain_nothing(heap);
    size_t given = gb_orphans_trim() | gb_purge_due(gb_port_now_ms(), true);
    return limit_told(heap) || given != 0 || gb_load_relaxed(&heap->bytes) < held;
}

/* What the group of processes uses, beside its limit: pressure.c has the picture. */
static void pressure_look(glebe_heap *heap, uint32_t now)
{
    enum { EVERY_MS = 200, SOON_MS = 20, UNLIMITED_MS = 5000, TELL_MS = 1000 };
    enum { FROM_SLICES = 64 << (20 - GB_SLICE_LOG2) };
    uint64_t limit, used;
    if (gb_ms_since(now, gb_load_relaxed(&gb_the.pressure_ms)) < gb_load_relaxed(&gb_the.pressure_every_ms)
        || gb_load_relaxed(&gb_the.slices) < FROM_SLICES)
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
    gb_retain_nothing(heap);
    if (!gb_port_pressure(&limit, &used) || used <= critical
        || gb_ms_since(now, gb_load_relaxed(&gb_the.pressure_told_ms)) < TELL_MS)
        return;
    gb_store_relaxed(&gb_the.pressure_told_ms, now);
    if (gb_pressure_tell(used, limit))
        gb_retain_nothing(heap);
}

/* ---- steps ---- */

/* What has waited for purge_ms. False: there is no more. */
static bool step_due(uint32_t now)
{
    return gb_purge_step(now - gb_the.options.purge_ms);
}

static void rest_begin(glebe_heap *heap)
{
    gb_fronts_flush(heap);
    gb_medium_trim(heap);
    gb_mixed_give(heap, false);
    heap->rests = true;
    heap->rest_ms = gb_port_now_ms();
}

static void rest_step(glebe_heap *heap)
{
    enum { PAGES = 32 };
    if (gb_spares_give(heap, PAGES)) {
        heap->rest_ms = gb_port_now_ms(); /* they wait since now, not since the look at the clock before */
        return;
    }
    bool more = gb_heap_look(heap) || gb_orphans_look();
    heap->rests = gb_purge_step(heap->rest_ms) || more;
}

/* Starting a thread may allocate, and a tick runs in the middle of a malloc. So this thread leaves its heap
 * meanwhile, as it does for the callback of pressure.c. */
static void background_late(void)
{
    if (gb_thread_away() || gb_lock_forking())
        return;
    glebe_heap *self = gb_thread_leave();
    gb_background_start();
    gb_thread_return(self);
}

/* While memory waits to be given back every slow event does a step, so that a process which rarely wakes gives it back
 * too. */
void gb_tick_due(glebe_heap *heap)
{
    enum { QUIET_BYTES = 1 << 20, COOL_MS_LOG2 = 4 };
    uint32_t now = gb_port_now_ms();
    gb_store_relaxed(&gb_the.now_ms, now);
    heap->tick = GB_TICK_EVENTS;
    heap->tick_cycles = gb_cycles();
    if (heap->rests)
        rest_step(heap);
    if (now == heap->tick_ms && !heap->rests && !heap->waits)
        return;
    bool quiet = gb_ms_since(now, heap->tick_ms) >= gb_the.options.purge_ms;
    if ((now ^ heap->tick_ms) >> COOL_MS_LOG2)
        gb_medium_cool(heap); /* a warm block keeps its page; those that are of use are warm again soon */
    heap->tick_ms = now;
    gb_remote_flush(heap);
    gb_orphans_drain();
    if (quiet && heap->avail_bytes + heap->spare_bytes > QUIET_BYTES)
        rest_begin(heap);
    /* Not while the heap rests: a chunk that it gave pages to would count as busy, queue again, and miss the rest's
     * purge. */
    bool queued = gb_load_relaxed(&gb_the.queue_chunks) || gb_load_relaxed(&gb_the.idle_first);
    heap->waits = heap->rests || (queued && step_due(now));
    if (heap->waits)
        heap->tick = 1;
    pressure_look(heap, now);
    if (GB_UNLIKELY(gb_load_relaxed(&gb_the.background_state) == GB_BACKGROUND_DUE))
        background_late();
}

void gb_tick(glebe_heap *heap)
{
    if (GB_UNLIKELY(--heap->tick <= 0 || gb_cycles() - heap->tick_cycles > GB_TICK_CYCLES))
        gb_tick_due(heap);
}

/* The collector's free pages are in the queue. */
void gb_retain_collected(void)
{
    gb_purge_due(gb_port_now_ms(), false);
}

/* ---- the background thread ---- */

static void background_run(void)
{
    for (;;) {
        uint32_t now = gb_port_now_ms();
        gb_store_relaxed(&gb_the.now_ms, now);
        while (step_due(now))
            continue;
        uint32_t wait = gb_purge_wait(gb_port_now_ms());
        if (wait == UINT32_MAX) {
            if (gb_orphans_trim() != 0)
                continue;
            gb_store(&gb_the.background_state, GB_BACKGROUND_SLEEPS);
            if (gb_purge_wait(gb_port_now_ms()) == UINT32_MAX) /* nothing came between */
                gb_port_wait(&gb_the.background_state, GB_BACKGROUND_SLEEPS, UINT32_MAX);
            gb_store(&gb_the.background_state, GB_BACKGROUND_RUNS);
        } else {
            static _Atomic uint32_t never;
            gb_port_wait(&never, 0, wait < 10 ? 10 : wait);
        }
    }
}

void gb_background_start(void)
{
    uint32_t off = GB_BACKGROUND_OFF, due = GB_BACKGROUND_DUE;
    if (!atomic_compare_exchange_strong(&gb_the.background_state, &off, GB_BACKGROUND_RUNS)
        && !atomic_compare_exchange_strong(&gb_the.background_state, &due, GB_BACKGROUND_RUNS))
        return;
    if (!gb_port_thread_start(background_run))
        gb_store(&gb_the.background_state, GB_BACKGROUND_OFF);
}

void gb_background_forked(void)
{
    gb_store(&gb_the.background_state, gb_the.options.background ? GB_BACKGROUND_DUE : GB_BACKGROUND_OFF);
}
