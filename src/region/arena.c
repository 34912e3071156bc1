/* The arena: commits the region chunk by chunk, and hands out runs of slices.
 *
 *     chunk:  |DDDD....Dcc.....|   128 slices; D free and dirty, c free and clean. Its longest row of either kind has
 *                                  four slices: rows[GB_ROW_DIRTY][4] and rows[GB_ROW_FREE][4] lead to it
 *
 * A run is taken where most of its slices are dirty, in one of the first chunks with the shortest rows that fit. So
 * full chunks fill up, and empty ones stay empty and can be purged. A slice that was never touched, or was purged, is
 * known to be zero; `dirty` marks the others.
 *
 * Where address space costs nothing the region is reserved as a whole. On Linux, and where pointers have 32 bits, only
 * its place is chosen: a commit then takes address space too. If that is limited (RLIMIT_AS, 32 bits), a wholly free
 * chunk is not purged but leaves: its address space returns to the host, for huge blocks, stacks, other libraries. A
 * chunk is "away" when it has left, or when other code has taken its place. Its entries say GB_RESERVED, and it is on a
 * list of its own. The arena tries chunks on that list before it commits a new one.
 *
 * Everything here is under gb_the.lock. Functions take it themselves unless region.h says "locked". */
#include "region.h"

/* ---- chunks, by the length of their longest rows ---- */

GB_INLINE gb_linked rows_linked(enum gb_row_kind kind)
{
    return gb_chunks_linked(offsetof(gb_chunk, rows) + kind * sizeof(gb_row) + offsetof(gb_row, links));
}

/* Records that the longest row has this length now. */
static void row_change(gb_chunk *chunk, enum gb_row_kind kind, uint32_t slices)
{
    gb_row *row = &chunk->rows[kind];
    gb_ends *lists = gb_the.arena.rows[kind];
    gb_slice_set *filled = &gb_the.arena.rows_filled[kind];
    if (row->slices == slices)
        return;
    if (row->slices) {
        gb_links_remove(rows_linked(kind), &lists[row->slices], &row->links);
        if (!lists[row->slices].first)
            *filled = gb_set_without(*filled, gb_set_range(row->slices - 1, 1));
    }
    row->slices = slices;
    if (slices) {
        gb_links_push_first(rows_linked(kind), &lists[slices], &row->links);
        *filled = gb_set_with(*filled, gb_set_range(slices - 1, 1));
    }
}

/* Returns the first of the chunks with the shortest row of at least `slices`; NULL if there is none. */
static gb_chunk *row_first(enum gb_row_kind kind, uint32_t slices)
{
    uint32_t more = slices > GB_CHUNK_SLICES ? GB_CHUNK_SLICES
                                             : gb_set_first(gb_set_down(gb_the.arena.rows_filled[kind], slices - 1));
    return more < GB_CHUNK_SLICES ? gb_chunk_if(gb_the.arena.rows[kind][slices + more].first) : NULL;
}

/* Returns the length of the row of members that contains [start, start + slices). */
static uint32_t row_around(gb_slice_set members, uint32_t start)
{
    return gb_set_run_before(members, start) + gb_set_run(members, start);
}

/* Enters a run as free. */
static void chunk_add(gb_chunk *chunk, uint32_t start, uint32_t slices)
{
    chunk->free = gb_set_with(chunk->free, gb_set_range(start, slices));
    chunk->free_slices = (uint8_t)(chunk->free_slices + slices);
    uint32_t row = row_around(chunk->free, start), dirty = row_around(gb_set_both(chunk->free, chunk->dirty), start);
    if (row > chunk->rows[GB_ROW_FREE].slices)
        row_change(chunk, GB_ROW_FREE, row);
    if (dirty > chunk->rows[GB_ROW_DIRTY].slices)
        row_change(chunk, GB_ROW_DIRTY, dirty);
}

/* Enters a run as not free. */
static void chunk_remove(gb_chunk *chunk, uint32_t start, uint32_t slices, gb_slice_set run)
{
    uint32_t row = row_around(chunk->free, start);
    chunk->free = gb_set_without(chunk->free, run);
    chunk->free_slices = (uint8_t)(chunk->free_slices - slices);
    if (row == chunk->rows[GB_ROW_FREE].slices)
        row_change(chunk, GB_ROW_FREE, gb_set_longest(chunk->free));
}

void gb_chunk_dirty_changed(gb_chunk *chunk)
{
    row_change(chunk, GB_ROW_DIRTY, gb_set_longest(gb_set_both(chunk->free, chunk->dirty)));
}

/* Returns where a run of members may begin. */
static gb_slice_set run_starts(gb_slice_set members, uint32_t slices, uint32_t alignment)
{
    gb_slice_set starts = gb_set_runs(members, slices);
    return alignment > 1 ? gb_set_aligned(starts, alignment) : starts;
}

/* A place for a run. */
typedef struct run_place {
    gb_chunk *chunk; /* NULL: no place */
    uint32_t start, dirty; /* dirty: how many slices of the place are dirty */
} run_place;

static uint32_t run_dirty(const gb_chunk *chunk, uint32_t start, uint32_t slices)
{
    return gb_set_count(gb_set_both(chunk->dirty, gb_set_range(start, slices)));
}

/* Takes the first place in this chunk that is all dirty. If there is none, compares the first place that fits with
 * the starts of rows of dirty slices, and takes the place with most dirty slices if it beats `best`. */
static void run_fit(gb_chunk *chunk, uint32_t slices, uint32_t alignment, run_place *best)
{
    gb_slice_set starts = run_starts(gb_set_both(chunk->free, chunk->dirty), slices, alignment);
    if (!gb_set_empty(starts)) {
        *best = (run_place){chunk, gb_set_first(starts), slices};
        return;
    }
    starts = run_starts(chunk->free, slices, alignment);
    if (!best->chunk && !gb_set_empty(starts))
        *best = (run_place){chunk, gb_set_first(starts), run_dirty(chunk, gb_set_first(starts), slices)};
    for (starts = gb_set_both(starts, chunk->dirty); !gb_set_empty(starts);) {
        uint32_t at = gb_set_first(starts), dirty = run_dirty(chunk, at, slices);
        if (dirty > best->dirty)
            *best = (run_place){chunk, at, dirty};
        starts = gb_set_without(starts, gb_set_range(at, gb_set_run(chunk->dirty, at)));
    }
}

/* ---- the region ---- */

bool gb_meta_commit(const void *start, size_t *committed, size_t need)
{
    if (need <= *committed)
        return true;
    size_t more = gb_round_up(need - *committed, gb_round_up((size_t)64 << 10, gb_the.page_bytes));
    if (gb_port_commit((uintptr_t)start + *committed, more, gb_the.reserved) != GB_COMMITTED)
        return false;
    *committed += more;
    glebe_live.stats.table_bytes += more;
    return true;
}

static bool bits_commit(gb_bits *bits, uint32_t chunks)
{
    return gb_meta_commit(bits->allocated, &bits->allocated_committed, gb_bits_bytes(chunks))
        && gb_meta_commit(bits->unmarked, &bits->unmarked_committed, gb_bits_bytes(chunks))
        && gb_meta_commit(bits->waiting, &bits->waiting_committed, gb_bits_bytes(chunks));
}

bool gb_bits_start(glebe_gc *gc)
{
    gb_lock_take(&gb_the.lock);
    gb_bits *bits = gb_the.bits + (gb_the.bits[0].collectors != 0);
    bool ok = bits_commit(bits, gb_the.arena.chunks);
    bits->collectors += ok;
    gc->bits = bits;
    gb_lock_drop(&gb_the.lock);
    return ok;
}

void gb_bits_end(glebe_gc *gc)
{
    gb_lock_take(&gb_the.lock);
    gc->bits->collectors--;
    gb_lock_drop(&gb_the.lock);
}

/* Writes the entries of a run. If `owner` is 0 they keep their owner, which is 0 in free slices. */
static void run_enter(gb_page *page, uint32_t from, uint32_t slices, enum gb_kind kind, uintptr_t owner)
{
    for (uint32_t i = from; i < slices; i++) {
        if (owner)
            gb_store_relaxed(&page[i].owner, owner);
        page[i].back_bytes = i * (uint32_t)sizeof(gb_page);
        gb_the.heads[gb_slice_of(page) + i] = page;
        page[i].kind = (uint8_t)kind;
    }
}

static void run_wipe(gb_page *page, uint32_t from, uint32_t slices, bool blank)
{
    for (uint32_t i = from; i < slices; i++) {
        if (GB_SECURE)
            page[i].state = blank ? GB_BLANK : GB_CURRENT;
        gb_store_relaxed(&page[i].owner, 0);
        page[i].back_bytes = 0;
        gb_the.heads[gb_slice_of(page) + i] = page + i;
        page[i].kind = GB_FREE;
    }
}

/* Slices of the secure build's guard: one, or an OS page if that is larger. */
static uint32_t chunk_guards(void)
{
    uint32_t slices = (uint32_t)(gb_the.page_bytes >> GB_SLICE_LOG2);
    return !GB_SECURE ? 0 : slices > 1 ? slices : 1;
}

/* Returns whether memory is touched densely. A sample chunk gets no huge page, and is checked when two more chunks
 * have been committed. */
static bool chunk_samples_dense(uint32_t number)
{
    enum { EVERY = 16, LATER = 2 };
    if (number % EVERY == 0)
        gb_the.arena.huge_pages_dense = gb_port_resident(gb_chunk_start(gb_chunk_at(number - LATER)), GB_CHUNK_BYTES)
            >= GB_CHUNK_BYTES / 4 * 3;
    return gb_the.arena.huge_pages_dense && number % EVERY != EVERY - LATER;
}

/* Times one huge page in eight. After a slow one the next 1, 2, 4 ... chunks or spans get none. docs/decisions/0018 has
 * the figures. */
bool gb_huge_page_ask(uintptr_t at)
{
    enum { TRUST = 8 };
    bool look = gb_the.arena.huge_pages_left == 0;
    gb_the.arena.huge_pages_left -= !look;
    if (!look && gb_the.arena.huge_pages_slow)
        return false;
    gb_port_huge_pages(at, GB_CHUNK_BYTES, true);
    if (look) {
        bool quick = gb_port_huge_page_quick(at);
        gb_the.arena.huge_pages_slow = quick ? 0 : gb_the.arena.huge_pages_slow ? gb_the.arena.huge_pages_slow * 2 : 1;
        gb_the.arena.huge_pages_left = quick ? TRUST - 1 : gb_the.arena.huge_pages_slow;
    }
    return true;
}

/* Returns whether a chunk that was never touched asks for a huge page: docs/decisions/0026. */
static bool chunk_asks(uint32_t number, uintptr_t at)
{
    if (GB_SECURE || gb_the.options.no_huge_pages || number < GB_HUGE_PAGES_FROM >> GB_CHUNK_LOG2)
        return false; /* no huge page around a guard */
    return chunk_samples_dense(number) && gb_huge_page_ask(at);
}

/* Slice 0 is the null of links, and never handed out. It is never committed, so that a write before the first block of
 * the heap faults. In the secure build it is a guard like others. */
static size_t chunk_without(uint32_t number)
{
    return !GB_SECURE && number == 0 && gb_the.page_bytes <= GB_SLICE_BYTES ? GB_SLICE_BYTES : 0;
}

/* Enters a committed chunk as free. The entries of its slices are those of free slices already, or were never
 * written. */
static gb_chunk *chunk_enter(uint32_t number)
{
    gb_chunk *chunk = gb_chunk_at(number);
    uintptr_t at = gb_slice_start(number * GB_CHUNK_SLICES);
    glebe_live.stats.committed_bytes += GB_CHUNK_BYTES - chunk_without(number);
    uint32_t guards = GB_SECURE ? chunk_guards() : number == 0;
    if (guards) { /* slice 0 is the null of links; in the secure build each chunk begins with a guard */
        for (uint32_t i = 0; i < guards; i++)
            gb_entry_at(number * GB_CHUNK_SLICES + i)->kind = GB_RESERVED;
        if (GB_SECURE)
            gb_port_protect(at, guards * GB_SLICE_BYTES);
    }
    if (chunk_asks(number, at)) {
        chunk->huge_pages = 1;
        glebe_live.stats.huge_page_bytes += GB_CHUNK_BYTES;
    }
    chunk_add(chunk, guards, GB_CHUNK_SLICES - guards);
    return chunk;
}

/* Appends a chunk, which has no row, to the list of chunks away. */
static void away_push(gb_chunk *chunk)
{
    gb_queue_insert(rows_linked(GB_ROW_FREE), &gb_the.arena.away, &chunk->rows[GB_ROW_FREE].links, 0);
}

bool gb_chunk_leave(gb_chunk *chunk)
{
    uint32_t number = gb_chunk_number(chunk);
    if (number == 0 || chunk->free_slices != GB_CHUNK_SLICES - chunk_guards()
        || !gb_port_decommit(gb_slice_start(number * GB_CHUNK_SLICES), GB_CHUNK_BYTES, false))
        return false;
    gb_the.arena.dirty_slices -= gb_set_count(chunk->dirty);
    glebe_live.stats.committed_bytes -= GB_CHUNK_BYTES;
    glebe_live.stats.huge_page_bytes -= chunk->huge_pages ? GB_CHUNK_BYTES : 0;
    chunk->huge_pages = 0;
    chunk->free = chunk->dirty = chunk->idle = (gb_slice_set){0, 0};
    chunk->free_slices = 0;
    row_change(chunk, GB_ROW_FREE, 0);
    row_change(chunk, GB_ROW_DIRTY, 0);
    run_enter(gb_entry_at(number * GB_CHUNK_SLICES), 0, GB_CHUNK_SLICES, GB_RESERVED, 0);
    away_push(chunk);
    return true;
}

/* Tries to commit up to `tries` chunks that are away. Returns one that succeeded, or NULL. */
static gb_chunk *chunk_return(uint32_t tries, enum gb_commit *got)
{
    *got = GB_TAKEN;
    uint32_t away = gb_load_relaxed(&gb_the.arena.away.count);
    for (uint32_t n = tries < away ? tries : away; n > 0; n--) {
        gb_chunk *chunk = gb_chunk_if(gb_the.arena.away.ends.first);
        uint32_t number = gb_chunk_number(chunk);
        *got = gb_port_commit(gb_chunk_start(chunk), GB_CHUNK_BYTES, false);
        if (*got == GB_NO_MEMORY)
            return NULL;
        gb_queue_remove(rows_linked(GB_ROW_FREE), &gb_the.arena.away, &chunk->rows[GB_ROW_FREE].links);
        if (*got == GB_COMMITTED) {
            run_wipe(gb_entry_at(number * GB_CHUNK_SLICES), 0, GB_CHUNK_SLICES, false);
            return chunk_enter(number);
        }
        away_push(chunk);
    }
    return NULL;
}

/* Commits a chunk at a place that is available. Returns NULL if there is no memory, or no place. */
static gb_chunk *chunk_grow(void)
{
    enum { TRIES = 256, TRIES_AWAY = 8 };
    enum gb_commit got;
    gb_chunk *chunk = chunk_return(gb_the.arena.chunks < gb_the.arena.chunks_max ? TRIES_AWAY : TRIES, &got);
    if (chunk || got == GB_NO_MEMORY)
        return chunk;
    for (int i = 0; i < TRIES && gb_the.arena.chunks < gb_the.arena.chunks_max; i++) {
        uint32_t number = gb_the.arena.chunks;
        size_t entries = (size_t)(number + 1) * GB_CHUNK_SLICES;
        if (!gb_meta_commit(gb_the.table, &gb_the.committed.table, entries * sizeof(gb_page))
            || !gb_meta_commit(gb_the.large, &gb_the.committed.large, entries / GB_LARGE_LEAST * sizeof(gb_page))
            || !gb_meta_commit(gb_the.heads, &gb_the.committed.heads, entries * sizeof(gb_page *))
            || !gb_meta_commit(gb_the.chunk_table, &gb_the.committed.chunk_table, (number + 1) * sizeof(gb_chunk))
            || (gb_the.bits[0].collectors && !bits_commit(gb_the.bits, number + 1))
            || (gb_the.bits[1].collectors && !bits_commit(gb_the.bits + 1, number + 1))
            || (GB_SHADOW
                && !gb_meta_commit(
                    gb_the.shadow, &gb_the.committed.shadow, (size_t)(number + 1) << (GB_CHUNK_LOG2 - GB_SHADOW_LOG2))))
            return NULL;
        size_t without = chunk_without(number);
        got = gb_port_commit(
            gb_slice_start(number * GB_CHUNK_SLICES) + without, GB_CHUNK_BYTES - without, gb_the.reserved);
        if (got == GB_NO_MEMORY)
            return NULL;
        gb_the.arena.chunks++;
        for (uint32_t slice = number * GB_CHUNK_SLICES; slice < entries; slice++)
            gb_the.heads[slice] = gb_entry_at(slice);
        gb_store(&gb_the.slices, entries);
        if (got == GB_COMMITTED)
            return chunk_enter(number);
        run_enter(gb_entry_at(number * GB_CHUNK_SLICES), 0, GB_CHUNK_SLICES, GB_RESERVED, 0);
        away_push(gb_chunk_at(number));
    }
    return NULL;
}

/* ---- runs ---- */

/* Looks at a few chunks with a row of `length` slices or more, shortest rows first. Takes a place that has more dirty
 * slices than the best so far. */
static void rows_look(enum gb_row_kind kind, uint32_t length, uint32_t slices, uint32_t alignment, run_place *best)
{
    enum { LOOKS = 8 };
    uint32_t wanted = gb_the.arena.dirty_slices < slices ? (uint32_t)gb_the.arena.dirty_slices : slices;
    gb_chunk *chunk = row_first(kind, length);
    for (int looks = LOOKS; chunk && looks > 0 && (!best->chunk || best->dirty < wanted); looks--) {
        run_fit(chunk, slices, alignment, best);
        gb_chunk *next = gb_chunk_if(chunk->rows[kind].links.next);
        chunk = next ? next : row_first(kind, chunk->rows[kind].slices + 1);
    }
}

/* Returns a place for a run, preferring resident memory. The cost does not depend on the number of chunks: any row
 * that is long enough has a place. An aligned run may not fit there, but fits in a row longer by the alignment. */
static run_place run_look(uint32_t slices, uint32_t alignment)
{
    run_place best = {NULL, 0, 0};
    uint32_t longer = slices + alignment - 1;
    rows_look(GB_ROW_DIRTY, slices, slices, alignment, &best);
    rows_look(GB_ROW_FREE, slices, slices, alignment, &best);
    if (!best.chunk && alignment > 1)
        rows_look(GB_ROW_FREE, longer < GB_CHUNK_SLICES ? longer : GB_CHUNK_SLICES, slices, alignment, &best);
    return best;
}

static void run_mark(gb_chunk *chunk, uint32_t start, uint32_t slices, bool *zero)
{
    gb_slice_set run = gb_set_range(start, slices);
    uint32_t touched = gb_set_count(gb_set_both(chunk->dirty, run));
    *zero = touched == 0;
    gb_the.arena.dirty_slices -= touched;
    chunk->dirty = gb_set_with(chunk->dirty, run);
    chunk->idle = gb_set_without(chunk->idle, run);
    bool shorter = touched
        && (touched < slices
            || row_around(gb_set_both(chunk->free, chunk->dirty), start) == chunk->rows[GB_ROW_DIRTY].slices);
    chunk_remove(chunk, start, slices, run);
    if (shorter)
        gb_chunk_dirty_changed(chunk);
    if (touched < slices)
        gb_bounds_changed();
}

/* Returns which slices of a run that is being taken are blank, as bits; and forgets it. Blank runs are short. */
static uint32_t run_blank(uint32_t first, uint32_t slices)
{
    enum { BITS = 32 };
    uint32_t blank = 0;
    for (uint32_t i = 0; GB_SECURE && i < slices; i++)
        if (gb_entry_at(first + i)->state == GB_BLANK) {
            gb_entry_at(first + i)->state = GB_CURRENT;
            blank |= i < BITS ? (uint32_t)1 << i : 0;
        }
    return blank;
}

bool gb_run_touched(uint32_t slices)
{
    return row_first(GB_ROW_DIRTY, slices) != NULL;
}

/* Locked. Writes the entries at once, so that the purger never sees half a page. */
static gb_page *run_take(glebe_heap *heap, enum gb_kind kind, uint32_t slices, uint32_t alignment, bool *zero)
{
    size_t bytes = (size_t)slices << GB_SLICE_LOG2;
    if (!gb_account(heap, bytes, gb_statistic(kind)))
        return NULL;
    run_place at = run_look(slices, alignment);
    gb_chunk *chunk = at.chunk ? NULL : chunk_grow();
    if (chunk)
        run_fit(chunk, slices, alignment, &at);
    if (!at.chunk) {
        gb_unaccount(heap, bytes, gb_statistic(kind));
        return NULL;
    }
    uint32_t first = gb_chunk_number(at.chunk) * GB_CHUNK_SLICES + at.start;
    gb_page *page = kind == GB_LARGE ? gb_large_record(first) : gb_entry_at(first);
    run_mark(at.chunk, at.start, slices, zero);
    uint32_t blank = run_blank(first, slices);
    /* leaves `owner`: collectors read the owner of any page */
    memset(&page->back_bytes, 0, sizeof *page - offsetof(gb_page, back_bytes));
    page->heap = heap->number.n;
    page->slices = slices;
    if (GB_SECURE && kind == GB_MEDIUM)
        page->blank = blank;
    if (kind != GB_LARGE)
        run_enter(page, 0, slices, kind, gb_owner(heap, kind));
    else {
        page->kind = GB_LARGE;
        page->cls = first % GB_LARGE_LEAST;
        page->state = GB_SINGLE;
        gb_list_push_last(&heap->large, page);
    }
    glebe_live.stats.pages_taken++;
    gb_account_kept();
    return page;
}

gb_page *gb_run_take(glebe_heap *heap, enum gb_kind kind, uint32_t slices, uint32_t alignment, bool *zero)
{
    gb_lock_take(&gb_the.lock);
    gb_page *page = run_take(heap, kind, slices, alignment, zero);
    gb_lock_drop(&gb_the.lock);
    return page;
}

/* Returns the length of the longest row of dirty slices from `least` to `most`; `most` if there is none. */
static uint32_t run_length(uint32_t least, uint32_t most)
{
    if (gb_run_touched(most))
        return most;
    for (uint32_t length = most - 1; length >= least; length--)
        if (gb_the.arena.rows[GB_ROW_DIRTY][length].first)
            return length;
    return most;
}

gb_page *gb_run_take_some(glebe_heap *heap, enum gb_kind kind, uint32_t least, uint32_t most, bool *zero)
{
    gb_lock_take(&gb_the.lock);
    gb_page *page = run_take(heap, kind, run_length(least, most), 1, zero);
    if (!page && least < most)
        page = run_take(heap, kind, least, 1, zero);
    gb_lock_drop(&gb_the.lock);
    return page;
}

static uint32_t run_first(const gb_page *page)
{
    return page->kind == GB_LARGE ? gb_large_slice(page) : gb_slice_of(page);
}

/* Locked. Frees the slices [from, slices) of the run. They are dirty, unless the page was purged already. */
static void run_free(const gb_page *page, uint32_t from, uint32_t slices)
{
    uint32_t first = run_first(page) + from;
    if (GB_AUDIT)
        gb_audit_wipe(gb_slice_start(first), (size_t)(slices - from) << GB_SLICE_LOG2);
    gb_chunk *chunk = gb_chunk_of(first);
    chunk_add(chunk, first % GB_CHUNK_SLICES, slices - from);
    gb_the.arena.dirty_slices += gb_page_purged(page) ? run_dirty(chunk, first % GB_CHUNK_SLICES, slices - from)
                                                      : slices - from;
    gb_purge_queue(chunk);
}

void gb_run_give(gb_page *page)
{
    glebe_heap *heap = gb_page_heap(page);
    uint32_t slices = page->slices;
    gb_lock_take(&gb_the.lock);
    if (!gb_page_purged(page))
        gb_unaccount(heap, (size_t)slices << GB_SLICE_LOG2, gb_statistic((enum gb_kind)page->kind));
    if (page->kind == GB_LARGE)
        gb_list_remove(&heap->large, page);
    run_free(page, 0, slices);
    if (page->kind == GB_LARGE)
        page->kind = GB_FREE;
    else
        run_wipe(page, 0, slices, page->kind == GB_MEDIUM && page->state == GB_BLANK);
    glebe_live.stats.pages_returned++;
    gb_lock_drop(&gb_the.lock);
}

bool gb_run_resize(gb_page *page, uint32_t slices)
{
    uint32_t before = page->slices, first = gb_large_slice(page) % GB_CHUNK_SLICES;
    gb_chunk *chunk = gb_chunk_of(gb_large_slice(page));
    glebe_heap *heap = gb_page_heap(page);
    uint64_t *statistic = gb_statistic((enum gb_kind)page->kind);
    bool ok = true, zero;
    gb_lock_take(&gb_the.lock);
    if (slices < before) {
        gb_unaccount(heap, (size_t)(before - slices) << GB_SLICE_LOG2, statistic);
        run_free(page, slices, before);
    } else if (slices > before) {
        uint32_t more = slices - before;
        ok = first + slices <= GB_CHUNK_SLICES && gb_set_run(chunk->free, first + before) >= more
            && gb_account(heap, (size_t)more << GB_SLICE_LOG2, statistic);
        if (ok) {
            run_mark(chunk, first + before, more, &zero);
            run_blank(gb_large_slice(page) + before, more);
            gb_account_kept();
        }
    }
    if (ok)
        page->slices = slices;
    gb_lock_drop(&gb_the.lock);
    return ok;
}
