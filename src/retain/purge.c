/* Giving memory back. A chunk in which memory was freed waits in a queue; after purge_ms it is looked at
 * once, under the region's lock:
 *
 *     free runs that are dirty      given back, known to be zero from then on; where address space is limited a chunk that
 *                                   is wholly free leaves with its address space (arena.c)
 *     holes of small pages          given back (hole.c says what a hole is)
 *     free blocks of medium pages   claimed bit by bit, so that their owner cannot take them meanwhile, given back, returned
 *     pages whose every block       given back whole, whether or not their owner ever looks again (remote.c has the claim)
 *     other threads freed
 *
 * A chunk in which no memory was freed for purge_ms is purged whole. In a busy one only memory that was free when the
 * purger last came by, and since, is given back; the rest is marked idle and the chunk queues again. So what a program
 * uses again and again stays, and what it left goes. Any thread does this at its ticks, and so do glebe_trim and the
 * background thread.
 *
 * With the option `purge` set to free, memory whose time has come goes back lazily. It is not known to be zero, so it
 * stays dirty; it is marked `lazy`, so it is not given back twice. For glebe_trim, a limit or a new peak memory goes
 * back at once. */
#include "retain.h"

/* Free slices that may be purged now, whole OS pages at a time where these are larger than a slice. */
static gb_slice_set purge_wanted(const gb_chunk *chunk, bool only_idle, bool lazily)
{
    gb_slice_set want = gb_set_both(chunk->free, only_idle ? chunk->idle : chunk->dirty), wide = {0, 0};
    if (lazily)
        want = gb_set_without(want, chunk->lazy);
    uint32_t group = (uint32_t)(gb_the.page_bytes >> GB_SLICE_LOG2);
    if (group < 2)
        return want;
    for (uint32_t i = 0; i < GB_CHUNK_SLICES; i += group) {
        gb_slice_set page = gb_set_range(i, group);
        if (!gb_set_empty(gb_set_both(want, page)) && gb_set_empty(gb_set_without(page, chunk->free)))
            wide = gb_set_with(wide, page);
    }
    return wide;
}

/* What was done to the slices `run`: a new state for those that are dirty. */
static void purge_enter(gb_chunk *chunk, gb_slice_set run, enum gb_purge done)
{
    run = gb_set_both(run, chunk->dirty);
    if (done == GB_PURGE_ZERO) {
        gb_the.arena.dirty_slices -= gb_set_count(run);
        chunk->dirty = gb_set_without(chunk->dirty, run);
    } else if (done == GB_PURGE_LAZY)
        chunk->lazy = gb_set_with(chunk->lazy, run);
}

/* Whole slices, and no more of them than `most` bytes need. */
static size_t purge_runs(gb_chunk *chunk, bool only_idle, bool lazily, size_t most, gb_purge_budget *budget)
{
    uintptr_t start = gb_chunk_start(chunk);
    size_t given = 0;
    chunk->lazy = gb_set_both(chunk->lazy, chunk->idle);
    gb_slice_set want = purge_wanted(chunk, only_idle, lazily);
    if (chunk->free_slices == GB_CHUNK_SLICES && !only_idle && !gb_set_empty(want) && most >= GB_CHUNK_BYTES)
        want = chunk->free; /* in one call */
    while (!gb_set_empty(want) && given < most && !gb_purge_spent(budget)) {
        uint32_t from = gb_set_first(want), slices = gb_set_run(want, from);
        if (most - given < (size_t)slices << GB_SLICE_LOG2)
            slices = (uint32_t)((most - given + GB_SLICE_BYTES - 1) >> GB_SLICE_LOG2);
        gb_slice_set run = gb_set_range(from, slices);
        size_t bytes = (size_t)slices << GB_SLICE_LOG2;
        uint32_t dirty = gb_set_count(gb_set_both(run, chunk->dirty));
        enum gb_purge done = gb_purge_range(start + ((uintptr_t)from << GB_SLICE_LOG2), bytes, lazily, budget);
        purge_enter(chunk, run, done);
        given += done != GB_PURGE_REFUSED ? (size_t)dirty << GB_SLICE_LOG2 : 0;
        want = gb_set_without(want, run);
    }
    gb_chunk_dirty_changed(chunk);
    return given;
}

/* Purges the blocks `run` (adjacent, claimed). OS pages that they share with others stay and are cleared with
 * memset: a purged block is zero to its last byte. */
static size_t purge_blocks(gb_page *page, uint32_t run, bool lazily, gb_purge_budget *budget)
{
    size_t size = gb_classes[page->cls].bytes;
    uintptr_t start = gb_page_start(page) + gb_ctz32(run) * size, end = start + gb_popcount32(run) * size;
    uintptr_t from = gb_round_up(start, gb_the.page_bytes), to = gb_round_down(end, gb_the.page_bytes);
    if (from >= to)
        return 0;
    enum gb_purge done = gb_purge_range(from, to - from, lazily, budget);
    if (done != GB_PURGE_ZERO) {
        page->lazy |= done == GB_PURGE_LAZY ? run : 0;
        return done == GB_PURGE_LAZY ? to - from : 0;
    }
    memset((void *)start, 0, from - start);
    memset((void *)to, 0, end - to);
    gb_and(&page->dirty, ~run);
    gb_and(&page->idle, ~run);
    return to - from;
}

/* The kernel would fill again what was purged of a huge page. */
GB_NOINLINE static void huge_page_split(gb_chunk *chunk)
{
    if (!chunk->huge_pages)
        return;
    gb_port_huge_pages(gb_chunk_start(chunk), GB_CHUNK_BYTES, false);
    chunk->huge_pages = 0;
    glebe_live.stats.huge_page_bytes -= GB_CHUNK_BYTES;
}

/* A page that was claimed whole: nothing in it is in use, and its owner will give it away. Never lazily: no other
 * heap could use the memory meanwhile. 0: it was refused, and the page is claimed no more. */
GB_NOINLINE static size_t purge_whole(gb_page *page, gb_purge_budget *budget)
{
    size_t bytes = gb_page_bytes(page);
    uint32_t first = gb_page_number(page);
    gb_chunk *chunk = gb_chunk_of(first);
    if (gb_purge_range(gb_page_start(page), bytes, false, budget) != GB_PURGE_ZERO) {
        gb_page_unclaim(page);
        return 0;
    }
    gb_unaccount(gb_heap_at(gb_load_relaxed(&page->heap)), bytes, gb_statistic((enum gb_kind)page->kind));
    chunk->dirty = gb_set_without(chunk->dirty, gb_set_range(first % GB_CHUNK_SLICES, page->slices));
    huge_page_split(chunk);
    return bytes;
}

static size_t purge_small(gb_page *page, bool only_idle, bool lazily, gb_purge_budget *budget)
{
    if (gb_the.page_bytes <= GB_SLICE_BYTES && gb_small_claim_whole(page, only_idle))
        return purge_whole(page, budget);
    return gb_holes_purge(page, lazily, budget);
}

static size_t purge_medium(gb_page *page, bool only_idle, bool lazily, gb_purge_budget *budget)
{
    uint32_t dirty = gb_load_relaxed(&page->dirty), idle = gb_load_relaxed(&page->idle);
    uint32_t bits = gb_load(&page->bits);
    bool whole = bits && bits == gb_medium_all(page) && (!only_idle || (dirty & ~idle) == 0);
    if ((bits & dirty) == 0 && !whole)
        return 0;
    uint32_t claimed = gb_swap(&page->bits, 0);
    if (whole && claimed == bits && gb_the.page_bytes <= GB_SLICE_BYTES && gb_medium_claim_whole(page)) {
        size_t bytes = purge_whole(page, budget);
        gb_or(&page->bits, bytes ? 0 : claimed);
        return bytes;
    }
    uint32_t want = claimed & (only_idle ? idle | ~dirty : ~(uint32_t)0);
    page->lazy &= idle;
    if (lazily)
        want &= ~page->lazy;
    size_t given = 0;
    while (want) {
        unsigned from = gb_ctz32(want);
        uint32_t tail = ~(want >> from);
        unsigned blocks = tail ? gb_ctz32(tail) : 32 - from;
        uint32_t run = (blocks == 32 ? ~(uint32_t)0 : ((uint32_t)1 << blocks) - 1) << from;
        if (run & dirty)
            given += purge_blocks(page, run, lazily, budget);
        want &= ~run;
    }
    gb_or(&page->idle, claimed & gb_load_relaxed(&page->dirty));
    gb_or(&page->bits, claimed);
    return given;
}

/* The first touch of a huge page made all of it resident, and what was never handed out with it. Where nothing is
 * dirty nothing was touched, since the whole chunk went back. */
static void purge_never_used(gb_chunk *chunk)
{
    if (gb_set_empty(chunk->dirty))
        return;
    gb_slice_set never = gb_set_without(chunk->free, chunk->dirty);
    gb_the.arena.dirty_slices += gb_set_count(never);
    chunk->dirty = gb_set_with(chunk->dirty, never);
    gb_chunk_dirty_changed(chunk);
}

/* Free runs, and no more than `most` bytes of them. */
static size_t purge_free(gb_chunk *chunk, bool only_idle, bool lazily, size_t most, gb_purge_budget *budget)
{
    if (gb_the.limited && !only_idle && gb_chunk_leave(chunk)) {
        glebe_live.stats.purges++;
        glebe_live.stats.purged_bytes += GB_CHUNK_BYTES;
        return GB_CHUNK_BYTES;
    }
    if (chunk->huge_pages)
        purge_never_used(chunk);
    size_t given = purge_runs(chunk, only_idle, lazily, most, budget);
    if (given && chunk->free_slices < GB_CHUNK_SLICES)
        huge_page_split(chunk);
    return given;
}

/* Where the budget does not do the rest is for the next step: what was given back is not looked at again. */
static size_t purge_chunk(gb_chunk *chunk, bool only_idle, bool lazily, gb_purge_budget *budget)
{
    size_t given = purge_free(chunk, only_idle, lazily, SIZE_MAX, budget);
    chunk->idle = gb_set_both(chunk->free, chunk->dirty);
    uint32_t first = gb_chunk_number(chunk) * GB_CHUNK_SLICES;
    for (uint32_t i = 0; i < GB_CHUNK_SLICES && !gb_purge_spent(budget);) {
        gb_page *page = gb_page_at(first + i);
        if (page->kind == GB_SMALL)
            given += purge_small(page, only_idle, lazily, budget);
        else if (page->kind == GB_MEDIUM)
            given += purge_medium(page, only_idle, lazily, budget);
        page = page->kind == GB_FREE && gb_large_in(first + i) ? gb_large_in(first + i) : page;
        i += page->kind == GB_FREE || page->kind == GB_RESERVED ? 1 : page->slices;
    }
    return given;
}

/* The chunk that has waited longest, if it does since `since`. Locked. */
static gb_chunk *queue_first(uint32_t since, bool all)
{
    gb_chunk *chunk = gb_the.kept.queue.first;
    return chunk && (all || !gb_ms_later(chunk->purge_ms, since)) ? chunk : NULL;
}

static void queue_pop(gb_chunk *chunk)
{
    gb_the.kept.queue.first = chunk->purge_next;
    if (!gb_the.kept.queue.first)
        gb_the.kept.queue.last = NULL;
    gb_store_relaxed(&gb_the.kept.queue.count, gb_load_relaxed(&gb_the.kept.queue.count) - 1);
    atomic_exchange(&chunk->queued, 0);
}

/* It waits as before, behind the others. */
static void queue_again(gb_chunk *chunk, uint32_t touched)
{
    gb_purge_queue(chunk);
    gb_store_relaxed(&chunk->touched_ms, touched);
}

/* Where memory is locked the host takes nothing back: time alone asks again after a while, for programs that lock it
 * do not want to wait. glebe_trim asks at once. */
static bool purge_refused_lately(void)
{
    enum { PAUSE = 8 }; /* of purge_ms */
    uint32_t refused = gb_load_relaxed(&gb_the.kept.refused_ms);
    return refused && gb_ms_since(gb_port_now_ms(), refused) < (uint64_t)PAUSE * gb_the.options.purge_ms;
}

/* Purges what was freed at `since` or before, until the budget is spent or there is no more. In a busy chunk memory
 * was freed later: what the budget leaves there waits as if it had been freed now. */
static size_t purge_queued(uint32_t since, bool all, bool lazily, gb_purge_budget *budget)
{
    enum { CHUNK_CALLS = 4 }; /* what it costs to look at one */
    if (!all && purge_refused_lately())
        return 0;
    gb_lock_take(&gb_the.lock);
    size_t given = gb_extents_purge(since, all, lazily, &budget->bytes);
    gb_chunk *chunk;
    for (uint32_t most = gb_load_relaxed(&gb_the.kept.queue.count);
        most-- > 0 && !gb_purge_spent(budget) && (chunk = queue_first(since, all)) != NULL;) {
        uint32_t touched = gb_load_relaxed(&chunk->touched_ms);
        bool busy = !all && gb_ms_later(touched, since);
        budget->refused = false;
        size_t here = purge_chunk(chunk, busy, lazily, budget);
        given += here;
        if (busy || here == 0 || !gb_purge_spent(budget)) /* else the next step goes on in it */
            queue_pop(chunk);
        if (budget->refused)
            gb_store_relaxed(&gb_the.kept.refused_ms, gb_port_now_ms() | 1); /* not 0 */
        if (busy || budget->refused)
            queue_again(chunk, touched);
        else if (atomic_load(&chunk->touched_ms) != touched) /* a free that came too late for this look found it queued */
            gb_purge_queue(chunk);
        budget->calls -= budget->calls < CHUNK_CALLS ? budget->calls : CHUNK_CALLS;
        gb_lock_drop(&gb_the.lock);
        gb_lock_take(&gb_the.lock);
    }
    gb_lock_drop(&gb_the.lock);
    return given;
}

size_t gb_purge_due(uint32_t now, bool all)
{
    gb_purge_budget budget = gb_purge_all();
    return purge_queued(now - gb_the.options.purge_ms, all, !all && gb_the.options.purge_lazily, &budget);
}

bool gb_purge_step(uint32_t since)
{
    gb_purge_budget budget = {GB_CHUNK_BYTES, 96, false}; /* a quarter of a millisecond at most */
    purge_queued(since, false, gb_the.options.purge_lazily, &budget);
    return gb_purge_spent(&budget);
}

size_t gb_purge_oldest(size_t bytes)
{
    size_t given = 0;
    gb_purge_budget budget = gb_purge_all();
    bytes = gb_round_up(bytes, gb_the.page_bytes);
    for (gb_chunk *chunk = gb_the.kept.queue.first; chunk && given < bytes; chunk = chunk->purge_next)
        given += purge_free(chunk, false, false, bytes - given, &budget);
    return given < bytes ? given + gb_extents_shrink(bytes - given) : given;
}

uint32_t gb_purge_wait(uint32_t now)
{
    gb_lock_take(&gb_the.lock);
    uint32_t wait = gb_extents_wait(now);
    if (purge_refused_lately())
        wait = wait < gb_the.options.purge_ms ? gb_the.options.purge_ms : wait;
    else if (gb_the.kept.queue.first) {
        uint32_t waited = gb_ms_since(now, gb_the.kept.queue.first->purge_ms);
        uint32_t due = waited >= gb_the.options.purge_ms ? 0 : gb_the.options.purge_ms - waited;
        wait = due < wait ? due : wait;
    }
    gb_lock_drop(&gb_the.lock);
    return wait;
}
