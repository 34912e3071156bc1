/* Address space of huge blocks: extents of 64 KiB granules, which split and merge. So the next block, of any size,
 * reuses memory that another block touched.
 *
 *     |edge| used | idle | clean | used | away | used | idle | ...                    top ->      never handed out
 *
 *     used     of one block
 *     idle     free, and resident as far as its block touched it; on the list of extents to purge, oldest first
 *     lazy     free, and purged lazily: may be resident, and is not known to be zero
 *     clean    free, committed, zero
 *     away     free, not committed: other code may map memory there meanwhile, unless the region is reserved
 *     lost     other code mapped memory there
 *
 * The table has an entry for each granule. The entry of an extent's first granule describes it; that of its last
 * granule holds its length, so arithmetic finds both neighbours. Free neighbours of one state are merged. Free
 * extents of a state are found by length, in bins of four to a doubling. A search looks at a few extents in the bin
 * of the wanted length. If none fits it takes the first extent of the next bin that is not empty.
 *
 * A block goes where memory is resident: into an idle extent that is long enough, or else into a row of free
 * neighbours with an idle one among them. Without a reservation the kernel merges adjacent committed memory into one
 * mapping. So an extent that is away, with others on both sides, costs a mapping. So does an extent whose OS pages
 * were moved: the kernel never merges it. Both are counted, and config.h has the bounds.
 *
 * Everything here is under gb_the.lock, except gb_extent_of and gb_extent_start. */
#include "region.h"

enum { EXTENT_LOOKS = 8 };

GB_INLINE gb_extent *extent_at(uint32_t number) { return gb_the.extents + number; }
GB_INLINE uint32_t extent_number(const gb_extent *extent) { return (uint32_t)(extent - gb_the.extents); }
GB_INLINE uint32_t extent_end(const gb_extent *extent) { return extent_number(extent) + extent->granules; }
GB_INLINE uint32_t granules_of(size_t bytes)
{
    return (uint32_t)(gb_round_up(bytes, GB_GRANULE_BYTES) >> GB_GRANULE_LOG2);
}
GB_INLINE size_t granules_bytes(uint32_t granules) { return (size_t)granules << GB_GRANULE_LOG2; }
GB_INLINE uintptr_t granule_start(uint32_t number) { return gb_the.extents_base + granules_bytes(number); }
GB_INLINE bool extent_free(const gb_extent *extent)
{
    return extent->state >= GB_EXTENT_IDLE && extent->state <= GB_EXTENT_AWAY;
}

uintptr_t gb_extent_start(const gb_extent *extent)
{
    return granule_start(extent_number(extent));
}

gb_extent *gb_extent_of(const void *address)
{
    uintptr_t at = (uintptr_t)address;
    if (at < gb_the.extents_base
        || (at - gb_the.extents_base) >> GB_GRANULE_LOG2 >= gb_load_relaxed(&gb_the.huge.top))
        return NULL;
    gb_extent *extent = extent_at((uint32_t)((at - gb_the.extents_base) >> GB_GRANULE_LOG2));
    while (extent->state == GB_EXTENT_INSIDE && extent != gb_the.extents)
        extent--;
    return extent;
}

/* ---- lists ---- */

/* Bins: 1, 2, 3 | 4, 5, 6, 7 | 8 and 9, 10 and 11, ... granules. */
static uint32_t extent_bin(uint32_t granules)
{
    unsigned log2 = gb_log2(granules);
    return log2 < 2 ? granules : (log2 - 1) * 4 + (granules >> (log2 - 2) & 3);
}

static gb_extent_set *extents_of(const gb_extent *extent)
{
    return &gb_the.huge.sets[extent->state - GB_EXTENT_IDLE];
}

/* Returns the first bin from this one on that is not empty, or GB_EXTENT_BINS. */
static uint32_t bin_filled(const gb_extent_set *set, uint32_t from)
{
    for (uint32_t word = from / 64; word < GB_EXTENT_BINS / 64; word++) {
        uint64_t bits = set->filled[word] & (word == from / 64 ? ~(uint64_t)0 << from % 64 : ~(uint64_t)0);
        if (bits)
            return word * 64 + gb_ctz64(bits);
    }
    return GB_EXTENT_BINS;
}

static void extent_link(gb_extent *extent)
{
    gb_extent_set *set = extents_of(extent);
    uint32_t bin = extent_bin(extent->granules);
    gb_links_push_first(gb_extents_linked(), &set->bins[bin], &extent->links);
    set->filled[bin / 64] |= (uint64_t)1 << bin % 64;
    set->count++;
}

static void extent_unlink(const gb_extent *extent)
{
    gb_extent_set *set = extents_of(extent);
    uint32_t bin = extent_bin(extent->granules);
    gb_links_remove(gb_extents_linked(), &set->bins[bin], &extent->links);
    if (!set->bins[bin].first)
        set->filled[bin / 64] &= ~((uint64_t)1 << bin % 64);
    set->count--;
}

GB_INLINE gb_linked idle_linked(void) { return GB_LINKED(gb_the.extents, gb_extent, waits); }

/* Inserts after `before`, or last. */
static void idle_insert(gb_extent *extent, const gb_extent *before)
{
    if (!gb_the.huge.idle.ends.first)
        gb_background_nudge();
    gb_queue_insert(idle_linked(), &gb_the.huge.idle, &extent->waits, before ? extent_number(before) : 0);
}

static void idle_remove(const gb_extent *extent)
{
    gb_queue_remove(idle_linked(), &gb_the.huge.idle, &extent->waits);
}

/* ---- free extents: split and merged ---- */

static gb_extent *extent_shape(uint32_t number, uint32_t granules, enum gb_extent_state state)
{
    gb_extent *extent = extent_at(number);
    extent->granules = granules;
    extent->state = (uint8_t)state;
    extent->moved = 0;
    extent_at(number + granules - 1)->before = granules;
    return extent;
}

static bool extents_merge(const gb_extent *a, const gb_extent *b)
{
    return a->state == b->state && !a->moved && !b->moved;
}

/* Merges `extent`, which is new, with its idle neighbours into `whole`. The result keeps the wait of the largest of the
 * three. */
static void idle_merge(gb_extent *whole, const gb_extent *extent, gb_extent *before, gb_extent *behind)
{
    gb_extent *longest = NULL;
    if (before && before->granules >= extent->granules && (!behind || before->granules >= behind->granules))
        longest = before;
    else if (behind && behind->granules >= extent->granules)
        longest = behind;
    uint32_t ms = longest ? longest->idle_ms : gb_port_now_ms();
    uint8_t deferred = longest ? longest->deferred : 0;
    if (before && before != longest)
        idle_remove(before);
    if (whole != longest)
        idle_insert(whole, longest);
    if (behind)
        idle_remove(behind);
    whole->idle_ms = ms;
    whole->deferred = deferred;
    glebe_live.stats.huge_retained_bytes += granules_bytes(extent->granules);
}

/* Enters granules as free, and returns the extent that contains them now. A moved extent is not merged with
 * neighbours. */
static gb_extent *extent_add(uint32_t number, uint32_t granules, enum gb_extent_state state, bool moved)
{
    if (granules == 0)
        return NULL;
    gb_extent *extent = extent_shape(number, granules, state);
    extent->moved = moved;
    gb_extent *before = extent_at(number - extent_at(number - 1)->before), *behind = extent_at(number + granules);
    before = extents_merge(before, extent) ? before : NULL;
    behind = extent_end(extent) < gb_load_relaxed(&gb_the.huge.top) && extents_merge(behind, extent) ? behind : NULL;
    gb_extent *whole = before ? before : extent;
    if (before)
        extent_unlink(before);
    if (behind)
        extent_unlink(behind);
    if (state == GB_EXTENT_IDLE)
        idle_merge(whole, extent, before, behind);
    uint32_t end = behind ? extent_end(behind) : extent_end(extent);
    if (before)
        extent->state = GB_EXTENT_INSIDE;
    if (behind)
        behind->state = GB_EXTENT_INSIDE;
    extent_shape(extent_number(whole), end - extent_number(whole), state)->moved = moved;
    gb_the.huge.moved += moved;
    extent_link(whole);
    return whole;
}

/* Takes [from, from + granules) out of the free extents there; `extent` contains `from`. The parts outside keep their
 * state. Returns how many bytes from `from` on may not be zero. */
static size_t extents_carve(gb_extent *extent, uint32_t from, uint32_t granules, bool *moved)
{
    size_t dirty = 0;
    uint32_t end = from + granules;
    *moved = false;
    for (uint32_t at = extent_number(extent); at < end; at = extent_number(extent)) {
        uint32_t next = extent_end(extent), here = (next < end ? next : end) - (at > from ? at : from);
        enum gb_extent_state state = (enum gb_extent_state)extent->state;
        bool was_moved = extent->moved, idle = state == GB_EXTENT_IDLE;
        extent_unlink(extent);
        gb_the.huge.moved -= was_moved;
        *moved |= was_moved;
        if (idle)
            glebe_live.stats.huge_retained_bytes -= granules_bytes(here);
        if (idle || state == GB_EXTENT_LAZY)
            dirty = granules_bytes((next < end ? next : end) - from);
        if (next > end) {
            gb_extent *rest = extent_shape(end, next - end, state);
            rest->moved = was_moved;
            gb_the.huge.moved += was_moved;
            rest->idle_ms = extent->idle_ms;
            rest->deferred = extent->deferred;
            if (idle)
                idle_insert(rest, extent);
            extent_link(rest);
        }
        if (at < from) {
            extent_shape(at, from - at, state)->moved = was_moved;
            gb_the.huge.moved += was_moved;
            extent_link(extent);
        } else {
            if (idle)
                idle_remove(extent);
            extent->state = GB_EXTENT_INSIDE;
        }
        extent = extent_at(next);
    }
    return dirty;
}

/* ---- commit ---- */

/* The part of an extent in [at, end): its start, and its length. */
static uintptr_t part_start(const gb_extent *extent, uintptr_t at)
{
    return gb_extent_start(extent) > at ? gb_extent_start(extent) : at;
}

static size_t part_bytes(const gb_extent *extent, uintptr_t at, uintptr_t end)
{
    uintptr_t stop = granule_start(extent_end(extent));
    return (stop < end ? stop : end) - part_start(extent, at);
}

static bool part_decommit(uintptr_t at, size_t bytes)
{
    bool done = gb_port_decommit(at, bytes, gb_the.reserved);
    if (done)
        gb_spans_decommitted(at, bytes);
    glebe_live.stats.committed_bytes -= done ? bytes : 0;
    return done;
}

/* Commits the parts of [at, end) that are away; `extent` contains the first byte. On failure nothing has changed,
 * and *failed is the extent that could not be committed. */
static enum gb_commit extents_commit(gb_extent *extent, uintptr_t at, uintptr_t end, gb_extent **failed)
{
    enum gb_commit got = GB_COMMITTED;
    gb_extent *e = extent;
    for (; got == GB_COMMITTED && gb_extent_start(e) < end; e = extent_at(extent_end(e))) {
        *failed = e;
        if (e->state != GB_EXTENT_AWAY)
            continue;
        got = gb_port_commit(part_start(e, at), part_bytes(e, at, end), gb_the.reserved);
        glebe_live.stats.committed_bytes += got == GB_COMMITTED ? part_bytes(e, at, end) : 0;
    }
    for (e = extent; got != GB_COMMITTED && e != *failed; e = extent_at(extent_end(e)))
        if (e->state == GB_EXTENT_AWAY)
            part_decommit(part_start(e, at), part_bytes(e, at, end));
    return got;
}

/* Enters the part of an extent in [from, end) as lost: other code mapped memory in this extent, which was away. */
static void extent_lose(gb_extent *extent, uint32_t from, uint32_t end)
{
    bool moved;
    from = extent_number(extent) > from ? extent_number(extent) : from;
    end = extent_end(extent) < end ? extent_end(extent) : end;
    extents_carve(extent, from, end - from, &moved);
    extent_link(extent_shape(from, end - from, GB_EXTENT_LOST));
}

/* ---- where address space is limited ---- */

/* Moves all extents of a state to away, as far as the host agrees. */
static void extents_leave(enum gb_extent_state state)
{
    gb_extent_set *set = &gb_the.huge.sets[state - GB_EXTENT_IDLE];
    for (uint32_t bin = bin_filled(set, 0); bin < GB_EXTENT_BINS; bin = bin_filled(set, bin + 1))
        for (uint32_t number = set->bins[bin].first, next; number; number = next) {
            gb_extent *extent = extent_at(number);
            next = extent->links.next;
            bool moved;
            if (state != GB_EXTENT_LOST && !part_decommit(gb_extent_start(extent), granules_bytes(extent->granules)))
                continue;
            uint32_t granules = extent->granules;
            extents_carve(extent, number, granules, &moved);
            extent_add(number, granules, GB_EXTENT_AWAY, false);
        }
}

void gb_limit_look(void)
{
    bool limited = !gb_the.reserved && (sizeof(size_t) < 8 || gb_port_address_bytes() < GB_ADDRESS_PLENTY);
    bool new_limit = limited && !gb_the.limited;
    gb_the.limited = limited;
    if (new_limit) {
        extents_leave(GB_EXTENT_CLEAN);
        for (uint32_t number = 1; number < gb_the.arena.chunks; number++)
            gb_chunk_leave(gb_chunk_at(number));
    }
}

/* Lowers `top` over an extent at the end that is away, as if it had never been handed out. */
static void extents_lower(void)
{
    uint32_t top = gb_load_relaxed(&gb_the.huge.top);
    gb_extent *last = extent_at(top ? top - extent_at(top - 1)->before : 0);
    if (top == 0 || last->state != GB_EXTENT_AWAY)
        return;
    extent_unlink(last);
    last->state = GB_EXTENT_INSIDE;
    gb_store_relaxed(&gb_the.huge.top, extent_number(last));
}

/* Called after a search failed: makes free and lost extents away, so that rows become longer. */
static void extents_gather(void)
{
    extents_leave(GB_EXTENT_LOST);
    extents_leave(GB_EXTENT_CLEAN);
    extents_leave(GB_EXTENT_LAZY);
    extents_leave(GB_EXTENT_IDLE);
    extents_lower();
}

/* ---- places ---- */

/* Returns the number of free granules from `from` on. `from` is a granule of `extent`, or its end. Stops soon after
 * `enough`. */
static uint32_t extents_row(const gb_extent *extent, uint32_t from, uint32_t enough)
{
    uint32_t end = extent_end(extent), top = gb_load_relaxed(&gb_the.huge.top);
    for (int looks = EXTENT_LOOKS;
        end < top && end - from < enough && looks > 0 && extent_free(extent_at(end)) && !extent_at(end)->moved; looks--)
        end = extent_end(extent_at(end));
    return end - from;
}

/* gb_extent_place, in granules. */
typedef struct extent_want {
    uint32_t granules;
    uint32_t behind; /* free granules behind the block, so that it can grow in place */
    size_t alignment;
    bool clean; /* not resident memory */
    bool room; /* one extent, which is away */
} extent_want;

static uint32_t granule_aligned(uint32_t number, size_t alignment)
{
    if (alignment <= GB_GRANULE_BYTES)
        return number;
    uintptr_t at = gb_round_up(granule_start(number), alignment) - gb_the.extents_base;
    uintptr_t granule = at >> GB_GRANULE_LOG2;
    return granule < gb_the.huge.granules_max ? (uint32_t)granule : gb_the.huge.granules_max;
}

/* Returns whether the block fits, and sets *from. All space behind the last extent is free. */
static bool extent_fits(const gb_extent *extent, const extent_want *want, uint32_t *from)
{
    *from = granule_aligned(extent_number(extent), want->alignment);
    if (extent->granules < want->granules || *from > extent_end(extent) - want->granules)
        return false;
    uint32_t row = want->behind ? extents_row(extent, *from, want->granules + want->behind) : want->granules;
    return row >= want->granules + want->behind || *from + row == gb_load_relaxed(&gb_the.huge.top);
}

/* Returns the shortest extent that fits, among those that a bounded search sees: first in the bin of the least length,
 * then in the following bins. */
static gb_extent *extents_search(enum gb_extent_state state, const extent_want *want, uint32_t *from)
{
    const gb_extent_set *set = &gb_the.huge.sets[state - GB_EXTENT_IDLE];
    gb_extent *best = NULL;
    uint32_t at, surely = extent_bin(want->granules + granules_of(want->alignment) - 1) + 1;
    int looks = 2 * EXTENT_LOOKS;
    for (uint32_t bin = bin_filled(set, extent_bin(want->granules)); bin < GB_EXTENT_BINS && !best;
        bin = bin_filled(set, bin + 1)) {
        if (looks == 0 && bin < surely)
            continue;
        looks += looks == 0; /* any extent in this bin fits, unless free space is wanted behind the block */
        for (gb_extent *extent = gb_extent_if(set->bins[bin].first); extent && looks > 0;
            extent = gb_extent_if(extent->links.next), looks--)
            if (extent_fits(extent, want, &at) && (!best || extent->granules < best->granules)) {
                best = extent;
                *from = at;
            }
    }
    return best;
}

/* Hands out space behind the last extent, as an extent that is away. */
static gb_extent *extents_raise(const extent_want *want, uint32_t *from)
{
    uint32_t top = gb_load_relaxed(&gb_the.huge.top), behind = want->behind;
    *from = granule_aligned(top, want->alignment);
    if (gb_the.huge.granules_max - *from < want->granules)
        return NULL;
    uint32_t left = gb_the.huge.granules_max - *from - want->granules;
    if (behind > left / 2 || gb_the.huge.sets[GB_EXTENT_AWAY - GB_EXTENT_IDLE].count >= GB_AWAY_MOST)
        behind = 0;
    uint32_t end = *from + want->granules + behind;
    if (!gb_meta_commit(gb_the.extents, &gb_the.committed.extents, (size_t)end * sizeof(gb_extent))
        || !gb_spans_reach(granule_start(end)))
        return NULL;
    gb_store_relaxed(&gb_the.huge.top, end);
    gb_extent *last = extent_at(top - extent_at(top - 1)->before);
    extent_add(top, end - top, GB_EXTENT_AWAY, false);
    return last->state == GB_EXTENT_AWAY ? last : extent_at(top);
}

enum { SPAN_GRANULES = GB_CHUNK_BYTES >> GB_GRANULE_LOG2 };

/* Commits space behind the last extent in whole spans of 2 MiB, if memory is touched densely: each span asks for its
 * huge page before any thread touches it. At least `granules` granules are clean afterwards. Returns false if memory
 * is not dense, or there is none. */
static bool extents_stock(uint32_t granules)
{
    uint32_t top = gb_load_relaxed(&gb_the.huge.top), from;
    uint32_t more = (uint32_t)gb_round_up(top + granules, SPAN_GRANULES) - top;
    if (!gb_spans_dense(granule_start(top)))
        return false;
    gb_extent *raised = extents_raise(&(extent_want){.granules = more, .alignment = 1}, &from), *failed;
    if (!raised || extents_commit(raised, granule_start(top), granule_start(top + more), &failed) != GB_COMMITTED)
        return false;
    bool moved;
    gb_spans_ask(granule_start(top), granule_start(top + more));
    extents_carve(raised, top, more, &moved);
    extent_add(top, more, GB_EXTENT_CLEAN, false);
    return true;
}

/* Lengthens the clean extent that ends at the top, and returns it. Returns NULL if it cannot be long enough. */
static gb_extent *extents_stocked(const extent_want *want, uint32_t *from)
{
    uint32_t top = gb_load_relaxed(&gb_the.huge.top);
    const gb_extent *last = extent_at(top - extent_at(top - 1)->before);
    uint32_t have = last->state == GB_EXTENT_CLEAN && !last->moved ? last->granules : 0;
    if (want->behind || want->alignment > GB_GRANULE_BYTES || have >= want->granules
        || !extents_stock(want->granules - have))
        return NULL;
    top = gb_load_relaxed(&gb_the.huge.top);
    *from = top - extent_at(top - 1)->before;
    return extent_at(*from)->granules >= want->granules ? extent_at(*from) : NULL;
}

/* Finds a row of free extents with a long idle one among them. Returns the first extent of the row. */
static gb_extent *extents_partly_idle(const extent_want *want, uint32_t *from)
{
    const gb_extent_set *set = &gb_the.huge.sets[0];
    int looks = EXTENT_LOOKS;
    for (uint32_t bin = GB_EXTENT_BINS; bin-- > 0 && looks > 0;)
        for (uint32_t number = set->bins[bin].first; number && looks > 0;
            number = extent_at(number)->links.next, looks--) {
            gb_extent *first = extent_at(number);
            uint32_t row = first->moved ? 0 : extents_row(first, number, want->granules), start = number;
            for (int back = EXTENT_LOOKS; row && row < want->granules && back > 0; back--) {
                gb_extent *before = extent_at(extent_number(first) - extent_at(extent_number(first) - 1)->before);
                if (!extent_free(before) || before->moved)
                    break;
                uint32_t more = before->granules < want->granules - row ? before->granules : want->granules - row;
                row += more;
                start -= more;
                first = before;
            }
            if (row && row < want->granules
                && number + extents_row(extent_at(number), number, want->granules)
                    == gb_load_relaxed(&gb_the.huge.top)
                && (extents_stock(want->granules - row)
                    || extents_raise(&(extent_want){.granules = want->granules - row, .alignment = 1}, from)))
                row = want->granules;
            if (row >= want->granules) {
                *from = start;
                return first;
            }
        }
    return NULL;
}

/* For a block that may grow an eighth of the free space wanted behind it is enough, where memory is resident: moving
 * the block later costs less than touching new memory now. */
static uint32_t extent_tight(uint32_t behind)
{
    return (behind + 7) / 8;
}

/* Finds resident memory. */
static gb_extent *extents_resident(const extent_want *want, uint32_t *from)
{
    gb_extent *extent = extents_search(GB_EXTENT_IDLE, want, from);
    if (!extent && want->behind) {
        extent_want tight = *want;
        tight.behind = extent_tight(want->behind);
        extent = extents_search(GB_EXTENT_IDLE, &tight, from);
    }
    if (!extent && !want->behind && want->alignment <= GB_GRANULE_BYTES)
        extent = extents_partly_idle(want, from);
    return extent;
}

/* Prefers resident memory, then other committed memory. Next comes space that was never handed out, unless address
 * space is limited. Space that is away between other extents comes last, because a block may want to grow into it,
 * unless there is much of it. */
static gb_extent *extents_place(const extent_want *want, uint32_t *from)
{
    gb_extent *extent = NULL;
    if (!want->clean && !want->room) {
        extent = extents_resident(want, from);
        if (!extent)
            extent = extents_search(GB_EXTENT_LAZY, want, from);
    }
    if (!extent && !want->room)
        extent = extents_search(GB_EXTENT_CLEAN, want, from);
    if (!extent)
        gb_limit_look();
    if (!extent && (gb_the.limited || gb_the.huge.sets[GB_EXTENT_AWAY - GB_EXTENT_IDLE].count >= GB_AWAY_MOST / 2))
        extent = extents_search(GB_EXTENT_AWAY, want, from);
    if (!extent && !want->room)
        extent = extents_stocked(want, from);
    if (!extent)
        extent = extents_raise(want, from);
    if (!extent)
        extent = extents_search(GB_EXTENT_AWAY, want, from);
    return extent;
}

/* ---- functions for huge blocks ---- */

static void extents_start(void)
{
    if (gb_load_relaxed(&gb_the.huge.top))
        return;
    if (!gb_meta_commit(gb_the.extents, &gb_the.committed.extents, sizeof(gb_extent))
        || !gb_spans_reach(gb_the.extents_base))
        return;
    /* One OS page before the first block is readable: some programs (LuaMetaTeX) read memory before a block of
     * megabytes, where other allocators have a header. */
    if (!GB_SECURE && !GB_AUDIT
        && gb_port_commit(
               gb_the.extents_base + GB_GRANULE_BYTES - gb_the.page_bytes, gb_the.page_bytes, gb_the.reserved)
            == GB_COMMITTED)
        glebe_live.stats.table_bytes += gb_the.page_bytes;
    extent_shape(0, 1, GB_EXTENT_EDGE);
    gb_store_relaxed(&gb_the.huge.top, 1);
}

/* Bytes of the guard behind a block of the secure build. The kernel bounds the number of mappings: with too many
 * blocks the rest of the granule is committed instead (extent_committed). */
static size_t extent_guard(void)
{
    return GB_SECURE ? gb_the.page_bytes : 0;
}

static size_t extent_committed(const gb_extent *extent, size_t bytes)
{
    bool exact = GB_SECURE && gb_the.huge.blocks < GB_AWAY_MOST / 2;
    return exact ? gb_round_up(bytes, gb_the.page_bytes)
                 : granules_bytes(extent->room ? granules_of(bytes) : extent->granules);
}

/* Commits the gap that alignment left before a block, if there would be too many mappings. */
static void extent_fill(uint32_t end)
{
    gb_extent *extent = extent_at(end - extent_at(end - 1)->before);
    uint32_t number = extent_number(extent);
    bool moved, many = gb_the.huge.sets[GB_EXTENT_AWAY - GB_EXTENT_IDLE].count > GB_AWAY_MOST;
    if (extent->state != GB_EXTENT_AWAY || !many || gb_the.reserved || gb_the.limited
        || gb_port_commit(granule_start(number), granules_bytes(end - number), false) != GB_COMMITTED)
        return;
    glebe_live.stats.committed_bytes += granules_bytes(end - number);
    extents_carve(extent, number, end - number, &moved);
    extent_add(number, end - number, GB_EXTENT_CLEAN, false);
}

/* Makes the clean part [number, end) of this extent idle, because a huge page made it resident. */
static void extent_warm(gb_extent *extent, uint32_t number, uint32_t end)
{
    bool moved;
    extents_carve(extent, number, end - number, &moved);
    extent_add(number, end - number, GB_EXTENT_IDLE, false);
}

/* Called when a block is about to touch [from, end): it also touches the rest of the huge pages in which it begins and
 * ends. */
static void extent_touches(uint32_t from, uint32_t end)
{
    uint32_t first = from / SPAN_GRANULES * SPAN_GRANULES, last = end / SPAN_GRANULES * SPAN_GRANULES;
    gb_extent *before = extent_at(from - extent_at(from - 1)->before), *behind = extent_at(end);
    if (first < from && before->state == GB_EXTENT_CLEAN && !before->moved && gb_span_huge(granule_start(first)))
        extent_warm(before, first > extent_number(before) ? first : extent_number(before), from);
    bool ends = end == gb_load_relaxed(&gb_the.huge.top);
    if (last < end && !ends && behind->state == GB_EXTENT_CLEAN && !behind->moved && gb_span_huge(granule_start(last)))
        extent_warm(behind, end, last + SPAN_GRANULES < extent_end(behind) ? last + SPAN_GRANULES : extent_end(behind));
}

static gb_extent *extent_use(gb_extent *extent, uint32_t from, const extent_want *want, size_t bytes)
{
    bool moved;
    size_t dirty = extents_carve(extent, from, want->granules, &moved);
    extent = extent_shape(from, want->granules, GB_EXTENT_USED);
    extent->moved = moved;
    gb_the.huge.moved += moved;
    extent->collected = 0;
    extent->warm = 0;
    extent->room = want->room;
    extent->dirty = dirty;
    extent->committed = extent_committed(extent, bytes);
    extent_fill(from);
    extent_touches(from, from + want->granules);
    return extent;
}

bool gb_extent_idle(size_t bytes, size_t behind)
{
    uint32_t from;
    extent_want want = {granules_of(bytes + extent_guard()), extent_tight(granules_of(behind)), 1, false, false};
    return extents_search(GB_EXTENT_IDLE, &want, &from) != NULL;
}

bool gb_extent_resident(const gb_extent *extent, size_t bytes)
{
    uint32_t end = extent_end(extent), wanted = extent_number(extent) + granules_of(bytes + extent_guard());
    return extent->dirty >= bytes
        || (end < gb_load_relaxed(&gb_the.huge.top) && extent_at(end)->state == GB_EXTENT_IDLE
            && extent_end(extent_at(end)) >= wanted);
}

gb_extent *gb_extent_take(size_t bytes, size_t alignment, const gb_extent_place *place)
{
    enum { TRIES = 256 }; /* places that other code may have taken */
    extents_start();
    if (!gb_load_relaxed(&gb_the.huge.top))
        return NULL;
    size_t whole = bytes + extent_guard();
    extent_want want = {granules_of(place->room > whole ? place->room : whole),
        gb_the.limited ? 0 : granules_of(place->behind), alignment, place->clean, place->room != 0};
    bool gathered = want.granules >= gb_the.huge.granules_max;
    for (int i = 0; i < TRIES; i++) {
        uint32_t from;
        gb_extent *extent = extents_place(&want, &from), *failed;
        if (!extent && want.behind) {
            want.behind = 0;
            continue;
        }
        enum gb_commit got = GB_NO_MEMORY;
        if (extent) {
            gb_extent shape = {.granules = want.granules, .room = want.room};
            got = extents_commit(
                extent, granule_start(from), granule_start(from) + extent_committed(&shape, bytes), &failed);
        }
        if (got == GB_COMMITTED)
            return extent_use(extent, from, &want, bytes);
        if (got == GB_TAKEN)
            extent_lose(failed, from, from + want.granules);
        else if (gathered)
            return NULL;
        else {
            gathered = true;
            extents_gather();
        }
    }
    return NULL;
}

/* Frees a part of an extent that was in use: its first granules are dirty, the next ones committed. */
static void extent_free_part(uint32_t number, uint32_t granules, uint32_t dirty, uint32_t committed, bool moved)
{
    dirty = dirty < committed ? dirty : committed;
    extent_add(number, dirty, GB_EXTENT_IDLE, moved);
    extent_add(number + dirty, committed - dirty, GB_EXTENT_CLEAN, moved);
    extent_add(number + committed, granules - committed, GB_EXTENT_AWAY, false);
}

void gb_extent_lost(gb_extent *extent, size_t lost)
{
    if (lost && part_decommit(gb_extent_start(extent) + lost, extent->committed - lost)) {
        glebe_live.stats.committed_bytes -= lost;
        extent_link(extent_shape(extent_number(extent), extent->granules, GB_EXTENT_LOST));
    } else
        gb_extent_give(extent);
}

void gb_extent_give(gb_extent *extent)
{
    uint32_t number = extent_number(extent), granules = extent->granules;
    bool moved = extent->moved;
    gb_the.huge.moved -= moved;
    extent->state = GB_EXTENT_INSIDE;
    if (!GB_SECURE && !(moved && gb_the.huge.moved > GB_MOVED_MOST / 2))
        extent_free_part(number, granules, granules_of(extent->dirty), granules_of(extent->committed), moved);
    else if (part_decommit(gb_extent_start(extent), extent->committed))
        extent_add(number, granules, GB_EXTENT_AWAY, false);
    else
        extent_link(extent_shape(number, granules, GB_EXTENT_LOST));
    if (gb_the.limited)
        extents_lower();
}

/* Changes the length of an extent that stays in use. */
static void extent_reshape(gb_extent *extent, uint32_t granules)
{
    bool moved = extent->moved;
    extent_shape(extent_number(extent), granules, GB_EXTENT_USED)->moved = moved;
}

/* Takes free granules behind the extent. */
static bool extent_lengthen(gb_extent *extent, uint32_t more, uintptr_t need)
{
    uint32_t end = extent_end(extent), top = gb_load_relaxed(&gb_the.huge.top), have = 0, from;
    if (end < top && extent_free(extent_at(end)) && !extent_at(end)->moved)
        have = extents_row(extent_at(end), end, more);
    if (have < more
        && (end + have != top
            || !extents_raise(&(extent_want){more - have, gb_the.limited ? 0 : more, 1, false, false}, &from)))
        return false;
    gb_extent *failed;
    bool moved;
    enum gb_commit got = extents_commit(extent_at(end), granule_start(end), need, &failed);
    if (got == GB_TAKEN)
        extent_lose(failed, end, end + more);
    if (got != GB_COMMITTED)
        return false;
    size_t dirty = extents_carve(extent_at(end), end, more, &moved);
    if (dirty)
        extent->dirty = granules_bytes(extent->granules) + dirty;
    extent_reshape(extent, extent->granules + more);
    return true;
}

bool gb_extent_extend(gb_extent *extent, size_t bytes)
{
    uint32_t granules = granules_of(bytes + extent_guard());
    uintptr_t start = gb_extent_start(extent), own = start + granules_bytes(extent->granules);
    gb_extent shape = {.granules = granules > extent->granules ? granules : extent->granules, .room = extent->room};
    uintptr_t need = start + extent_committed(&shape, bytes);
    if (start + extent->committed < need && start + extent->committed < own) { /* first the block's own granules */
        uintptr_t at = start + extent->committed, end = need < own ? need : own;
        if (gb_port_commit(at, end - at, gb_the.reserved) != GB_COMMITTED)
            return false;
        glebe_live.stats.committed_bytes += end - at;
        extent->committed = end - start;
    }
    if (granules > extent->granules && !extent_lengthen(extent, granules - extent->granules, need))
        return false;
    if (extent->committed < need - start)
        extent->committed = need - start;
    return true;
}

void gb_extent_cut(gb_extent *extent, size_t bytes)
{
    uint32_t number = extent_number(extent), granules = extent->granules, keep = granules_of(bytes + extent_guard());
    uintptr_t start = gb_extent_start(extent);
    if (GB_SECURE || extent->room) { /* the block keeps its room */
        size_t committed = GB_SECURE ? gb_round_up(bytes, gb_the.page_bytes) : granules_bytes(granules_of(bytes));
        if (committed >= extent->committed)
            return;
        size_t given = extent->committed - committed;
        if (part_decommit(start + committed, given)) {
            extent->committed = committed;
            extent->dirty = extent->dirty < committed ? extent->dirty : committed;
            glebe_live.stats.purges++;
            glebe_live.stats.purged_bytes += given;
        }
        return;
    }
    if (keep == granules)
        return;
    uint32_t dirty = granules_of(extent->dirty), committed = granules_of(extent->committed);
    extent_reshape(extent, keep);
    extent->dirty = dirty > keep ? granules_bytes(keep) : extent->dirty;
    extent->committed = committed > keep ? granules_bytes(keep) : extent->committed;
    extent_free_part(number + keep, granules - keep, dirty > keep ? dirty - keep : 0,
        committed > keep ? committed - keep : 0, extent->moved);
}
