/* Retention: which freed memory is kept for reuse, and when it is purged. This file and bounds.c alone decide. Lower
 * layers ask bounds.c how much they may keep. If more is kept than the bounds allow, bounds.c sets gb_the.kept.over,
 * and the function that serves the request calls gb_retain_act.
 *
 *     what is kept                     how much                               until
 *     warm blocks (medium)             one of each class                      16 ms pass, or the heap grows
 *     warm blocks (large, huge)        8, and 4 MiB; less if heaps are many   the same, or none of them fits a request
 *     spare pages (small, empty)       512 KiB and a 16th of the heap's       the heap rests, or grows
 *                                      small pages; less if heaps are many
 *     idle slices and extents          a 16th of the peak in use,             purge_ms pass after they were freed
 *                                      plus an 8th of large blocks and a
 *                                      6th of huge ones
 *     free blocks of pages in use      all                                    the heap rests; whole OS pages are purged
 *     pages of abandoned heaps         all, for any heap that needs some      the same, one heap at a time
 *     common heaps                     as other heaps                         the same; ticks of any thread do it
 *
 * Events: more is kept than the bounds allow (gb_retain_act), a slow allocation happens (gb_tick), an allocation fails
 * (gb_make_room), a collection ends (gb_retain_collected).
 *
 * A heap rests once purge_ms pass between two looks at the clock, because its program is quiet, and more than 1 MiB is
 * in its spare and AVAIL pages. From then on each slow event does one step. The first steps return spare pages to the
 * arena. Each later step searches pages for holes, until 16,384 blocks or 0.4 ms are spent, and ends the page that it
 * began; if that took less than 0.4 ms, it purges 2 MiB or 96 pieces. A step continues where the last one stopped, so
 * no request pays for more than one step. The background thread purges in the same steps, one after the other.
 *
 * Locks: the heap's own lists need none, because only the owner thread calls here. The region's lock guards bounds and
 * purging. */
#include "retain.h"

/* If the OS refuses, raises the allowed peak by a share, so that the next request does not retry at once. */
void gb_retain_act(void)
{
    gb_lock_take(&gb_the.lock);
    gb_store_relaxed(&gb_the.kept.over, false);
    size_t extents = gb_bounds_extents();
    if (extents)
        gb_extents_shrink(extents);
    size_t over = gb_bounds_over(), given = over ? gb_purge_oldest(over) : 0;
    if (given < over) {
        size_t peak = gb_load_relaxed(&gb_the.kept.peak_bytes) + over - given;
        gb_store_relaxed(&gb_the.kept.peak_bytes, peak + peak / GB_KEPT_SHARE);
    }
    gb_lock_drop(&gb_the.lock);
    gb_watch_poll();
}

/* ---- all of it at once ---- */

/* `looks` as for gb_heap_trim. */
static void heap_retain_nothing(glebe_heap *heap, bool looks)
{
    if (heap->number.n == 0)
        return;
    gb_remote_flush(heap);
    gb_inbox_drain(heap);
    gb_heap_trim(heap, looks);
    gb_medium_trim(heap);
}

/* heap_retain_nothing for each common heap that no thread is in; with `silent`, only for those that rest or that no
 * thread entered for purge_ms. Returns the bytes returned to the arena. */
static size_t common_retain_nothing(bool silent, bool looks)
{
    size_t given = 0;
    for (uint32_t i = 0; i < GB_COMMON_HEAPS; i++) {
        gb_common *common = gb_common_try(i, silent, gb_port_now_ms());
        if (!common)
            continue;
        glebe_heap *heap = gb_common_heap(common);
        size_t held = gb_load_relaxed(&heap->bytes);
        heap_retain_nothing(heap, looks);
        given += held - gb_load_relaxed(&heap->bytes);
        gb_common_leave(common);
    }
    return given;
}

size_t gb_retain_nothing(glebe_heap *heap)
{
    heap_retain_nothing(heap, true);
    common_retain_nothing(false, true);
    gb_abandoned_trim(true);
    return gb_purge_due(gb_port_now_ms(), true);
}

/* Returns whether any memory became free. Does not look for holes: they count as held, and keep their address space.
 * Looking walks every page, and at its limit a program may fail often. */
static bool room_gather(glebe_heap *heap)
{
    size_t held = gb_load_relaxed(&heap->bytes);
    heap_retain_nothing(heap, false);
    size_t given = common_retain_nothing(false, false) | gb_abandoned_trim(false);
    given |= gb_purge_due(gb_port_now_ms(), true);
    return given != 0 || gb_load_relaxed(&heap->bytes) < held;
}

/* True if the process's limit refused the heap's last request, and the program's callback was called for it. */
static bool limit_told(glebe_heap *heap)
{
    gb_lock_take(&gb_the.lock);
    size_t bytes = heap->refused_bytes, limit = gb_the.options.limit, used = (size_t)glebe_live.stats.used_bytes;
    gb_lock_drop(&gb_the.lock);
    bool fits = bytes <= limit - (used < limit ? used : limit);
    if (bytes == 0 || bytes > limit || fits || !gb_pressure_tell(used, limit))
        return false;
    room_gather(heap);
    return true;
}

bool gb_make_room(glebe_heap *heap)
{
    bool gathered = room_gather(heap);
    return limit_told(heap) || gathered;
}

/* Compares the memory use of the group of processes with its limit, and acts; pressure.c has the picture. */
static void pressure_look(glebe_heap *heap, uint32_t now)
{
    enum { EVERY_MS = 200, SOON_MS = 20, UNLIMITED_MS = 5000, TELL_MS = 1000 };
    enum { FROM_BYTES = 64 << 20 };
    uint64_t limit, used;
    if (gb_ms_since(now, gb_load_relaxed(&gb_the.pressure.looked_ms)) < gb_load_relaxed(&gb_the.pressure.every_ms)
        || gb_load_relaxed(&gb_the.kept.peak_bytes) < FROM_BYTES)
        return;
    gb_store_relaxed(&gb_the.pressure.looked_ms, now);
    gb_store_relaxed(&gb_the.pressure.every_ms, UNLIMITED_MS);
    if (!gb_port_pressure(&limit, &used))
        return;
    uint64_t high = limit / 20 * 17, critical = limit / 20 * 19;
    gb_store_relaxed(&gb_the.pressure.every_ms, used > high ? SOON_MS : EVERY_MS);
    if (used <= high || gb_ms_since(now, gb_load_relaxed(&gb_the.pressure.acted_ms)) < EVERY_MS)
        return;
    gb_store_relaxed(&gb_the.pressure.acted_ms, now);
    if (used <= critical) {
        gb_purge_due(now, true);
        return;
    }
    gb_retain_nothing(heap);
    if (!gb_port_pressure(&limit, &used) || used <= critical
        || gb_ms_since(now, gb_load_relaxed(&gb_the.pressure.told_ms)) < TELL_MS)
        return;
    gb_store_relaxed(&gb_the.pressure.told_ms, now);
    if (gb_pressure_tell(used, limit))
        gb_retain_nothing(heap);
}

/* ---- steps ---- */

/* Purges, within a budget, memory that was freed at least purge_ms ago. Returns false if none is left. */
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
        /* the slices just freed are in the queue since now, which is later than the last look at the clock */
        heap->rest_ms = gb_port_now_ms();
        return;
    }
    uint64_t begun = gb_cycles();
    bool more = gb_heap_look(heap) || gb_abandoned_look();
    bool slow = gb_cycles() - begun > GB_STEP_CYCLES; /* the next steps purge */
    heap->rests = slow || gb_purge_step(heap->rest_ms) || more;
}

/* Starts the background thread from a tick. Starting a thread may allocate, and a tick runs inside a malloc. So this
 * thread leaves its heap meanwhile, as for the callback of pressure.c. */
static void background_late(void)
{
    if (gb_thread_away() || gb_lock_forking())
        return;
    glebe_heap *self = gb_thread_leave();
    gb_background_start();
    gb_thread_return(self);
}

GB_INLINE bool tick_comes(glebe_heap *heap)
{
    return --heap->tick <= 0 || gb_cycles() - heap->tick_cycles > GB_TICK_CYCLES;
}

/* The heap's part of a tick. Returns false if the clock has not advanced since the last tick and no purging is under
 * way. While memory waits for its purge, every slow event does a step, so that a process that rarely wakes purges
 * too. */
static bool tick_heap(glebe_heap *heap, uint32_t now)
{
    enum { QUIET_BYTES = 1 << 20, COOL_MS_LOG2 = 4 };
    gb_store_relaxed(&gb_the.now_ms, now);
    heap->tick = GB_TICK_EVENTS;
    heap->tick_cycles = gb_cycles();
    if (heap->rests)
        rest_step(heap);
    if (now == heap->tick_ms && !heap->rests && !heap->waits
        && gb_load_relaxed(&gb_the.background_state) != GB_BACKGROUND_DUE)
        return false;
    bool quiet = gb_ms_since(now, heap->tick_ms) >= gb_the.options.purge_ms;
    if ((now ^ heap->tick_ms) >> COOL_MS_LOG2) {
        gb_heap_cool(heap); /* a warm block keeps its page in use; blocks in demand are soon warm again */
        if (GB_BORROWS)
            gb_borrowed_return(heap, true);
    }
    heap->tick_ms = now;
#if GB_SAMPLES
    if (GB_UNLIKELY(gb_load_relaxed(&gb_the.guards.every_bytes) != 0))
        gb_sampling_turn(heap);
#endif
    gb_remote_flush(heap);
    gb_abandoned_drain();
    if (quiet && heap->avail_bytes + heap->spare_bytes > QUIET_BYTES)
        rest_begin(heap);
    /* No step while the heap rests: a chunk to which the heap just returned pages would count as busy, be queued again,
     * and miss the purge of rest_step. */
    bool queued = gb_load_relaxed(&gb_the.kept.queue.count) || gb_load_relaxed(&gb_the.huge.idle.count);
    heap->waits = heap->rests || (queued && step_due(now));
    if (heap->waits)
        heap->tick = 1;
    return true;
}

/* Called for a common heap that no thread entered for a while. A small one is emptied at once, a large one in steps. */
static void common_rest(glebe_heap *heap, uint32_t now)
{
    enum { SMALL_BYTES = 1 << 20 };
    if (!heap->rests && heap->small_bytes <= SMALL_BYTES)
        heap_retain_nothing(heap, true);
    tick_heap(heap, now);
}

/* The process's part of a tick. It may call the program, so the caller is in no common heap. */
static void tick_process(glebe_heap *heap, uint32_t now)
{
    uint32_t turn = atomic_fetch_add_explicit(&gb_the.common_next, 1, memory_order_relaxed);
    gb_common *common = gb_common_try(turn, true, now);
    if (common) {
        common_rest(gb_common_heap(common), now);
        gb_common_leave(common);
    }
    if (GB_SNAPSHOTS && GB_UNLIKELY(gb_the.watch.look != NULL)
        && gb_ms_since(now, gb_load_relaxed(&gb_the.watch.looked_ms)) >= GB_WATCH_MS)
        gb_the.watch.look(0);
#if GB_SAMPLES
    if (GB_UNLIKELY(gb_load_relaxed(&gb_the.ask.state) != GB_ASK_NONE))
        gb_ask_tick();
#endif
    pressure_look(heap, now);
    uint32_t state = gb_load_relaxed(&gb_the.background_state);
    if (GB_UNLIKELY(state >= GB_BACKGROUND_DUE)
        && (state == GB_BACKGROUND_DUE || gb_load_relaxed(&gb_the.kept.peak_bytes) >= GB_BACKGROUND_FROM))
        background_late();
}

void gb_tick_due(glebe_heap *heap)
{
    uint32_t now = gb_port_now_ms();
    if (tick_heap(heap, now))
        tick_process(heap, now);
}

bool gb_tick_common(glebe_heap *heap)
{
    return GB_UNLIKELY(tick_comes(heap)) && tick_heap(heap, gb_port_now_ms());
}

void gb_tick_left(void)
{
    tick_process(&gb_heap_none, gb_port_now_ms());
}

void gb_tick(glebe_heap *heap)
{
    if (GB_UNLIKELY(tick_comes(heap)))
        gb_tick_due(heap);
}

/* The sweep has put the collector's free pages into the queue. */
void gb_retain_collected(void)
{
    gb_retain_bound();
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
            if ((common_retain_nothing(true, true) | gb_abandoned_trim(true)) != 0)
                continue;
            gb_store(&gb_the.background_state, GB_BACKGROUND_SLEEPS);
            if (gb_purge_wait(gb_port_now_ms()) == UINT32_MAX) /* no chunk was queued in between */
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
    uint32_t state = gb_load(&gb_the.background_state);
    if (state == GB_BACKGROUND_RUNS || state == GB_BACKGROUND_SLEEPS
        || !atomic_compare_exchange_strong(&gb_the.background_state, &state, GB_BACKGROUND_RUNS))
        return;
    if (!gb_port_thread_start(background_run))
        gb_store(&gb_the.background_state, GB_BACKGROUND_OFF);
}

void gb_background_forked(void)
{
    gb_store(&gb_the.background_state, gb_the.options.background ? GB_BACKGROUND_LATE : GB_BACKGROUND_OFF);
}
