/* Giving memory back. A chunk in which memory was freed stands in a queue; when it has stood there for purge_ms it is looked at
 * once, under the region's lock:
 *
 *     free runs that are dirty      given back, known to be zero from then on; where address space is limited a chunk that
 *                                   is wholly free leaves with its address space (arena.c)
 *     holes of small pages          given back (hole.c says what a hole is)
 *     free blocks of medium pages   claimed bit by bit, so that their owner cannot take them meanwhile, given back, returned
 *
 * A chunk that nobody freed memory in for purge_ms is purged whole. In a busy one only memory that was free when the purger
 * last came by, and since, is given back; the rest is marked idle and the chunk queues again. So what a program uses again and
 * again stays, and what it left goes. Who comes by: any thread at its ticks, glebe_collect, or the background thread.
 *
 * With the option `purge` set to free, what time alone gives back is given back lazily: it is not known to be zero, so it stays
 * dirty, and is marked `lazy` lest it be given back once more. What is asked for (glebe_collect, a limit, a new peak) goes at once. */
#include "core.h"

void gb_purge_queue(gb_chunk *chunk)
{
    gb_store_relaxed(&chunk->touched_ms, gb_load_relaxed(&gb_the.now_ms));
    if (gb_load_relaxed(&chunk->queued))
        return;
    uint32_t number = (uint32_t)(chunk - gb_the.chunk_table) + 1;
    gb_store_relaxed(&chunk->queued, 1);
    chunk->purge_next = 0;
    chunk->purge_ms = gb_port_now_ms();
    if (gb_the.queue.last)
        gb_chunk_at(gb_the.queue.last - 1)->purge_next = number;
    else {
        gb_the.queue.first = number;
        gb_background_nudge();
    }
    gb_the.queue.last = number;
    gb_store_relaxed(&gb_the.queue_chunks, gb_load_relaxed(&gb_the.queue_chunks) + 1);
}

void gb_purge_note(const gb_page *page)
{
    gb_chunk *chunk = gb_chunk_of(gb_page_number(page));
    uint32_t now = gb_load_relaxed(&gb_the.now_ms);
    if (gb_load_relaxed(&chunk->touched_ms) != now)
        gb_store_relaxed(&chunk->touched_ms, now);
    if (gb_load_relaxed(&chunk->queued))
        return;
    gb_lock_take(&gb_the.lock);
    gb_purge_queue(chunk);
    gb_lock_drop(&gb_the.lock);
}

static enum gb_purge purge_range(uintptr_t at, size_t bytes, bool lazily)
{
    enum gb_purge done = bytes ? gb_port_purge(at, bytes, lazily) : GB_PURGE_REFUSED;
    if (done != GB_PURGE_REFUSED) {
        glebe_live.stats.purges++;
        glebe_live.stats.purged_bytes += bytes;
    }
    return done;
}

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
        gb_the.dirty_slices -= gb_set_count(run);
        chunk->dirty = gb_set_without(chunk->dirty, run);
    } else if (done == GB_PURGE_LAZY)
        chunk->lazy = gb_set_with(chunk->lazy, run);
}

/* Whole slices, and no more of them than `most` bytes need. */
static size_t purge_runs(gb_chunk *chunk, bool only_idle, bool lazily, size_t most)
{
    uintptr_t start = gb_slice_start((uint32_t)(chunk - gb_the.chunk_table) * GB_CHUNK_SLICES);
    size_t given = 0;
    chunk->lazy = gb_set_both(chunk->lazy, chunk->idle);
    gb_slice_set want = purge_wanted(chunk, only_idle, lazily);
    if (chunk->free_slices == GB_CHUNK_SLICES && !only_idle && !gb_set_empty(want) && most >= GB_CHUNK_BYTES)
        want = chunk->free; /* in one call */
    while (!gb_set_empty(want) && given < most) {
        uint32_t from = gb_set_first(want), slices = gb_set_run(want, from);
        if (most - given < (size_t)slices << GB_SLICE_LOG2)
            slices = (uint32_t)((most - given + GB_SLICE_BYTES - 1) >> GB_SLICE_LOG2);
        gb_slice_set run = gb_set_range(from, slices);
        size_t bytes = (size_t)slices << GB_SLICE_LOG2;
        uint32_t dirty = gb_set_count(gb_set_both(run, chunk->dirty));
        enum gb_purge done = purge_range(start + ((uintptr_t)from << GB_SLICE_LOG2), bytes, lazily);
        purge_enter(chunk, run, done);
        given += done != GB_PURGE_REFUSED ? (size_t)dirty << GB_SLICE_LOG2 : 0;
        want = gb_set_without(want, run);
    }
    gb_chunk_dirty_changed(chunk);
    return given;
}

static size_t purge_holes(gb_page *page, bool lazily)
{
    size_t given = 0;
    for (uint32_t want = (uint32_t)(page->holes & ~page->punched); want;) {
        unsigned from = gb_ctz32(want), units = gb_ctz32(~(want >> from));
        uint32_t run = (((uint32_t)1 << units) - 1) << from;
        size_t bytes = (size_t)units << GB_UNIT_LOG2;
        if (purge_range(gb_page_start(page) + ((uintptr_t)from << GB_UNIT_LOG2), bytes, lazily) != GB_PURGE_REFUSED)
            given += bytes;
        page->punched = (uint16_t)(page->punched | run);
        want &= ~run;
    }
    return given;
}

/* Purges the blocks `run` (adjacent, claimed). OS pages that they share with others stay and are cleared by hand: a purged
 * block is zero to its last byte. */
static size_t purge_blocks(gb_page *page, uint32_t run, bool lazily)
{
    size_t size = gb_classes[page->cls].bytes;
    uintptr_t start = gb_page_start(page) + gb_ctz32(run) * size, end = start + gb_popcount32(run) * size;
    uintptr_t from = gb_round_up(start, gb_the.page_bytes), to = gb_round_down(end, gb_the.page_bytes);
    if (from >= to)
        return 0;
    enum gb_purge done = purge_range(from, to - from, lazily);
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

static size_t purge_medium(gb_page *page, bool only_idle, bool lazily)
{
    uint32_t dirty = gb_load_relaxed(&page->dirty), idle = gb_load_relaxed(&page->idle);
    if ((gb_load_relaxed(&page->bits) & dirty) == 0)
        return 0;
    uint32_t claimed = gb_swap(&page->bits, 0);
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
            given += purge_blocks(page, run, lazily);
        want &= ~run;
    }
    gb_or(&page->idle, claimed & gb_load_relaxed(&page->dirty));
    gb_or(&page->bits, claimed);
    return given;
}

/* The first touch of a huge page made all of it resident, and what was never handed out with it. Where nothing is dirty nothing
 * was touched, since the whole chunk went back. */
static void purge_never_used(gb_chunk *chunk)
{
    if (gb_set_empty(chunk->dirty))
        return;
    gb_slice_set never = gb_set_without(chunk->free, chunk->dirty);
    gb_the.dirty_slices += gb_set_count(never);
    chunk->dirty = gb_set_with(chunk->dirty, never);
    gb_chunk_dirty_changed(chunk);
}

/* Free runs, and no more than `most` bytes of them. */
static size_t purge_free(gb_chunk *chunk, bool only_idle, bool lazily, size_t most)
{
    if (!gb_the.reserved && !only_idle && gb_chunk_leave(chunk)) {
        glebe_live.stats.purges++;
        glebe_live.stats.purged_bytes += GB_CHUNK_BYTES;
        return GB_CHUNK_BYTES;
    }
    if (chunk->huge_pages)
        purge_never_used(chunk);
    size_t given = purge_runs(chunk, only_idle, lazily, most);
    if (given && chunk->huge_pages && chunk->free_slices < GB_CHUNK_SLICES) { /* else the kernel fills the holes again */
        gb_port_huge_pages(gb_slice_start((uint32_t)(chunk - gb_the.chunk_table) * GB_CHUNK_SLICES), GB_CHUNK_BYTES, false);
        chunk->huge_pages = 0;
        glebe_live.stats.huge_page_bytes -= GB_CHUNK_BYTES;
    }
    return given;
}

static size_t purge_chunk(gb_chunk *chunk, bool only_idle, bool lazily)
{
    size_t given = purge_free(chunk, only_idle, lazily, SIZE_MAX);
    chunk->idle = gb_set_both(chunk->free, chunk->dirty);
    uint32_t first = (uint32_t)(chunk - gb_the.chunk_table) * GB_CHUNK_SLICES;
    for (uint32_t i = 0; i < GB_CHUNK_SLICES;) {
        gb_page *page = gb_page_at(first + i);
        if (page->kind == GB_SMALL)
            given += purge_holes(page, lazily);
        else if (page->kind == GB_MEDIUM)
            given += purge_medium(page, only_idle, lazily);
        i += page->kind == GB_FREE || page->kind == GB_RESERVED ? 1 : page->slices;
    }
    return given;
}

/* The chunk that has waited longest, if its time has come; the lock is held. */
static gb_chunk *queue_pop(uint32_t now, bool all)
{
    if (!gb_the.queue.first)
        return NULL;
    gb_chunk *chunk = gb_chunk_at(gb_the.queue.first - 1);
    if (!all && gb_ms_since(now, chunk->purge_ms) < gb_the.options.purge_ms)
        return NULL;
    gb_the.queue.first = chunk->purge_next;
    if (!gb_the.queue.first)
        gb_the.queue.last = 0;
    gb_store_relaxed(&gb_the.queue_chunks, gb_load_relaxed(&gb_the.queue_chunks) - 1);
    gb_store_relaxed(&chunk->queued, 0);
    return chunk;
}

static size_t purge_queued(uint32_t now, bool all, bool lazily)
{
    size_t given = 0;
    gb_lock_take(&gb_the.lock);
    uint32_t queued = gb_load_relaxed(&gb_the.queue_chunks), most = all ? queued : 16 + queued / 4; /* bounds the pause of one tick */
    given += gb_huge_purge(now, all, lazily);
    for (uint32_t i = 0; i < most; i++) {
        gb_chunk *chunk = queue_pop(now, all);
        if (!chunk)
            break;
        bool busy = !all && gb_ms_since(now, gb_load_relaxed(&chunk->touched_ms)) < gb_the.options.purge_ms;
        given += purge_chunk(chunk, busy, lazily);
        if (busy) {
            uint32_t touched = gb_load_relaxed(&chunk->touched_ms);
            gb_purge_queue(chunk);
            gb_store_relaxed(&chunk->touched_ms, touched);
        }
        gb_lock_drop(&gb_the.lock);
        gb_lock_take(&gb_the.lock);
    }
    gb_lock_drop(&gb_the.lock);
    return given;
}

size_t gb_purge_due(uint32_t now, bool all)
{
    return purge_queued(now, all, !all && gb_the.options.purge_lazily);
}

size_t gb_purge_quiet(uint32_t now)
{
    return purge_queued(now, true, gb_the.options.purge_lazily);
}

size_t gb_purge_oldest(size_t bytes)
{
    size_t given = 0;
    bytes = gb_round_up(bytes, gb_the.page_bytes);
    for (uint32_t number = gb_the.queue.first; number && given < bytes; number = gb_chunk_at(number - 1)->purge_next)
        given += purge_free(gb_chunk_at(number - 1), false, false, bytes - given);
    return given < bytes ? given + gb_huge_shrink(bytes - given) : given;
}

uint32_t gb_purge_wait(uint32_t now)
{
    gb_lock_take(&gb_the.lock);
    uint32_t wait = gb_huge_wait(now);
    if (gb_the.queue.first) {
        uint32_t waited = gb_ms_since(now, gb_chunk_at(gb_the.queue.first - 1)->purge_ms);
        uint32_t due = waited >= gb_the.options.purge_ms ? 0 : gb_the.options.purge_ms - waited;
        wait = due < wait ? due : wait;
    }
    gb_lock_drop(&gb_the.lock);
    return wait;
}

unsigned gb_hole_take(gb_page *page)
{
    gb_lock_take(&gb_the.lock);
    uint32_t resident = (uint32_t)(page->holes & ~page->punched);
    unsigned unit = gb_ctz32(resident ? resident : page->holes);
    page->holes = (uint16_t)(page->holes & ~(1u << unit));
    page->punched = (uint16_t)(page->punched & ~(1u << unit));
    gb_lock_drop(&gb_the.lock);
    return unit;
}

void gb_hole_give(gb_page *page, uint32_t units)
{
    gb_lock_take(&gb_the.lock);
    page->holes = (uint16_t)(page->holes | units);
    gb_purge_queue(gb_chunk_of(gb_page_number(page)));
    gb_lock_drop(&gb_the.lock);
}
