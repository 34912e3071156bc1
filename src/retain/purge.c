/* Purging: returning physical memory to the OS. A chunk in which memory was freed waits in a queue. After purge_ms the
 * purger looks at the chunk once, under the region's lock:
 *
 *     free runs that are dirty      purged, known to be zero from then on; if address space is limited, a wholly free
 *                                   chunk returns its address space too (arena.c)
 *     holes of small pages          purged (hole.c says what a hole is)
 *     free blocks of medium pages   claimed bit by bit, so that their owner cannot take them, purged, made free again
 *     pages whose every block       purged whole, even if their owner never looks again (remote.c has the claim)
 *     other threads freed
 *
 * In a chunk where no memory was freed for purge_ms, all free memory is purged. In a busy chunk the purger takes only
 * memory that has been free since its last visit; it marks the rest idle, and queues the chunk again. So memory in
 * constant use stays, and memory out of use is purged. Ticks of any thread, glebe_trim and the background thread purge.
 *
 * With the option `purge` set to free, due memory is purged lazily. Such memory is not known to be zero, so it stays
 * dirty; `lazy` marks it, so that it is not purged twice. glebe_trim, a limit and a new peak purge at once. */
#include "retain.h"

/* Returns the free slices to purge now. If an OS page is larger than a slice, only whole OS pages. */
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

/* Records the outcome of a purge for those slices of `run` that were dirty. */
static void purge_enter(gb_chunk *chunk, gb_slice_set run, enum gb_purge done)
{
    run = gb_set_both(run, chunk->dirty);
    if (done == GB_PURGE_ZERO) {
        gb_the.arena.dirty_slices -= gb_set_count(run);
        chunk->dirty = gb_set_without(chunk->dirty, run);
    } else if (done == GB_PURGE_LAZY)
        chunk->lazy = gb_set_with(chunk->lazy, run);
}

/* Purges whole slices, at most as many as `most` bytes need. Returns the dirty bytes purged. */
static size_t purge_runs(gb_chunk *chunk, bool only_idle, bool lazily, size_t most, gb_purge_budget *budget)
{
    uintptr_t start = gb_chunk_start(chunk);
    size_t given = 0;
    chunk->lazy = gb_set_both(chunk->lazy, chunk->idle);
    gb_slice_set want = purge_wanted(chunk, only_idle, lazily);
    if (chunk->free_slices == GB_CHUNK_SLICES && !only_idle && !gb_set_empty(want) && most >= GB_CHUNK_BYTES)
        want = chunk->free; /* the clean slices too, so that one call does it */
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

/* Purges the blocks `run` (adjacent, claimed). OS pages that they share with other blocks stay, and memset clears the
 * blocks' part: a purged block is zero to its last byte. */
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

/* Withdraws the chunk's request for a huge page; otherwise the kernel would fill the purged parts again. */
GB_NOINLINE static void huge_page_split(gb_chunk *chunk)
{
    if (!chunk->huge_pages)
        return;
    gb_port_huge_pages(gb_chunk_start(chunk), GB_CHUNK_BYTES, false);
    chunk->huge_pages = 0;
    glebe_live.stats.huge_page_bytes -= GB_CHUNK_BYTES;
}

/* Purges a page that was claimed whole: no block of it is in use, and its owner will return its run. Never lazily,
 * because no other heap could use the memory meanwhile. Returns 0 if the OS refused; the claim is dropped then. */
GB_NOINLINE static size_t purge_whole(gb_page *page, gb_purge_budget *budget)
{
    size_t bytes = gb_page_bytes(page);
    uint32_t first = gb_slice_of(page);
    gb_chunk *chunk = gb_chunk_of(first);
    if (gb_purge_range(gb_page_start(page), bytes, false, budget) != GB_PURGE_ZERO) {
        gb_page_unclaim(page);
        return 0;
    }
    gb_unaccount(gb_page_heap(page), bytes, gb_statistic((enum gb_kind)page->kind));
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

/* The first touch of a huge page made all of it resident, including slices that were never handed out. So this marks
 * them dirty. If no slice is dirty, none was touched since the whole chunk was purged. */
static void purge_never_used(gb_chunk *chunk)
{
    if (gb_set_empty(chunk->dirty))
        return;
    gb_slice_set never = gb_set_without(chunk->free, chunk->dirty);
    gb_the.arena.dirty_slices += gb_set_count(never);
    chunk->dirty = gb_set_with(chunk->dirty, never);
    gb_chunk_dirty_changed(chunk);
}

/* Purges free runs, at most `most` bytes of them. */
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

/* Purges within the budget. The next step does the rest: it skips memory that is purged already. */
static size_t purge_chunk(gb_chunk *chunk, bool only_idle, bool lazily, gb_purge_budget *budget)
{
    size_t given = purge_free(chunk, only_idle, lazily, SIZE_MAX, budget);
    chunk->idle = gb_set_both(chunk->free, chunk->dirty);
    uint32_t first = gb_chunk_number(chunk) * GB_CHUNK_SLICES;
    for (uint32_t i = 0; i < GB_CHUNK_SLICES && !gb_purge_spent(budget);) {
        gb_page *page = gb_entry_at(first + i);
        if (page->kind == GB_SMALL)
            given += purge_small(page, only_idle, lazily, budget);
        else if (page->kind == GB_MEDIUM)
            given += purge_medium(page, only_idle, lazily, budget);
        page = page->kind == GB_FREE && gb_large_in(first + i) ? gb_large_in(first + i) : page;
        i += page->kind == GB_FREE || page->kind == GB_RESERVED ? 1 : page->slices;
    }
    return given;
}

/* Locked. Returns the chunk that has waited longest, if it was queued at `since` or before; else NULL. */
static gb_chunk *queue_first(uint32_t since, bool all)
{
    gb_chunk *chunk = gb_chunk_if(gb_the.kept.queue.ends.first);
    return chunk && (all || !gb_ms_later(chunk->queued_ms, since)) ? chunk : NULL;
}

static void queue_pop(gb_chunk *chunk)
{
    gb_queue_remove(gb_chunks_linked(offsetof(gb_chunk, waits)), &gb_the.kept.queue, &chunk->waits);
    atomic_exchange(&chunk->queued, 0);
}

/* Queues the chunk again, behind the others, and restores its time of the last free. */
static void queue_again(gb_chunk *chunk, uint32_t touched)
{
    gb_purge_queue(chunk);
    gb_store_relaxed(&chunk->touched_ms, touched);
}

/* Returns whether the OS refused memory lately. It takes no locked memory, and a program that locks its memory does not
 * want to wait. So ticks pause then; glebe_trim does not. */
static bool purge_refused_lately(void)
{
    enum { PAUSE = 8 }; /* in units of purge_ms */
    uint32_t refused = gb_load_relaxed(&gb_the.kept.refused_ms);
    return refused && gb_ms_since(gb_port_now_ms(), refused) < (uint64_t)PAUSE * gb_the.options.purge_ms;
}

/* Purges memory that was freed at `since` or before, until the budget is spent or none is left. In a busy chunk memory
 * was freed later: memory that the budget leaves there waits as if it had been freed now. */
static size_t purge_queued(uint32_t since, bool all, bool lazily, gb_purge_budget *budget)
{
    enum { CHUNK_CALLS = 4 }; /* the cost of a look at one chunk */
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
        if (busy || here == 0 || !gb_purge_spent(budget)) /* otherwise the next step continues in this chunk */
            queue_pop(chunk);
        if (budget->refused)
            gb_store_relaxed(&gb_the.kept.refused_ms, gb_port_now_ms() | 1); /* 0 means never */
        if (busy || budget->refused)
            queue_again(chunk, touched);
        else if (atomic_load(&chunk->touched_ms) != touched) /* a free after this look found the chunk queued */
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
    gb_purge_budget budget = {GB_CHUNK_BYTES, 96, false}; /* at most 0.25 ms */
    purge_queued(since, false, gb_the.options.purge_lazily, &budget);
    return gb_purge_spent(&budget);
}

size_t gb_purge_oldest(size_t bytes)
{
    size_t given = 0;
    gb_purge_budget budget = gb_purge_all();
    bytes = gb_round_up(bytes, gb_the.page_bytes);
    for (gb_chunk *chunk = gb_chunk_if(gb_the.kept.queue.ends.first); chunk && given < bytes;
        chunk = gb_chunk_if(chunk->waits.next))
        given += purge_free(chunk, false, false, bytes - given, &budget);
    return given < bytes ? given + gb_extents_shrink(bytes - given) : given;
}

uint32_t gb_purge_wait(uint32_t now)
{
    gb_lock_take(&gb_the.lock);
    uint32_t wait = gb_extents_wait(now);
    if (purge_refused_lately())
        wait = wait < gb_the.options.purge_ms ? gb_the.options.purge_ms : wait;
    else if (gb_the.kept.queue.ends.first) {
        uint32_t waited = gb_ms_since(now, gb_chunk_if(gb_the.kept.queue.ends.first)->queued_ms);
        uint32_t due = waited >= gb_the.options.purge_ms ? 0 : gb_the.options.purge_ms - waited;
        wait = due < wait ? due : wait;
    }
    gb_lock_drop(&gb_the.lock);
    return wait;
}
