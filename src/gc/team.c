/* Several threads mark (GB_RUNTIMES). mark.c is the same work by one thread.
 *
 *     glebe_gc_begin    the team begins: roots are scanned, what they refer to goes onto the collecting thread's stack
 *        |  helpers join as they wake, and get chunks of work (share.c)
 *     glebe_gc_finish   the team ends: the collecting thread works with the helpers until no object is left to scan
 *        |              then it goes on alone: finalizers, weak references, sweep
 *
 * An object's mark is one atomic operation, and whoever clears the bit scans the object. Each marker has a stack. If
 * it is full, its older half becomes a chunk; without a free chunk those objects wait, by their bits, as in mark.c.
 * Waiting pages and huge objects are taken by the next marker that has nothing else to do, under the lock of the share.
 * A thread that adds some looks there before it may become idle, so marking does not end before they are scanned.
 *
 * The world is stopped, so nothing but marks and these lists changes. An allocation by the program's functions in
 * between ends the team first. Kinds' functions run in any marker: what they name goes to that marker. Chunks are
 * allocated before the world stops: a 128th of the live bytes. */
#include "gc.h"

enum { TEAM_STACK = 512, TEAM_AHEAD = 16, TEAM_PIECE = 4096, TEAM_GIVES_FROM = 16, TEAM_LIVE_SHARE = 128 };
#define TEAM_LEAST_BYTES ((size_t)8 << 20) /* with less live memory, waking threads takes longer than marking */

typedef uintptr_t __attribute__((may_alias)) team_reference; /* a word of the program's memory */
typedef uint32_t __attribute__((may_alias)) team_half; /* half a word of the bit tables, as in mark.c */

typedef struct gb_marker {
    glebe_gc *gc;
    uintptr_t base;
    size_t bytes; /* from `base`, that have bits */
    const gb_page *table;
    const team_half *allocated;
    team_half *unmarked; /* all markers write it */
    uintptr_t *top;
    uint64_t scanned; /* objects */
    uint32_t first, end; /* of `ahead`, modulo its length */
    bool inside; /* a kind's function runs */
    uintptr_t ahead[TEAM_AHEAD]; /* objects whose memory the processor fetches */
    uintptr_t stack[TEAM_STACK];
} gb_marker;

/* The process has one team, which serves one collector until that is destroyed. */
typedef struct team_state {
    gb_share share;
    _Atomic uint32_t round; /* changes when marking begins: helpers wake */
    _Atomic uint32_t busy; /* a collector uses the team */
    _Atomic uint32_t helpers; /* started */
    glebe_gc *gc; /* the collector that marks */
    glebe_gc *owner; /* the collector in whose heap the chunks are; only it has a team */
    char *chunks;
    size_t chunks_bytes;
    gb_marker main;
    _Atomic size_t scanned_by_helpers;
} team_state;
static team_state team;

static GB_TLS gb_marker *team_self; /* of the thread, while it marks */

/* ---- marks ---- */

static GB_COLD void team_huge(gb_marker *m, uintptr_t word)
{
    gb_lock_take(&team.share.lock);
    gb_mark_huge(m->gc, word);
    gb_lock_drop(&team.share.lock);
}

/* Moves the older half of the stack into a chunk; the objects wait if there is none. */
static GB_NOINLINE void team_give(gb_marker *m)
{
    size_t count = (size_t)(m->top - m->stack) / 2;
    gb_work *chunk = gb_share_empty(&team.share);
    count = count < GB_WORK_ITEMS ? count : GB_WORK_ITEMS;
    if (chunk) {
        chunk->count = count;
        memcpy(chunk->items, m->stack, count * sizeof *m->stack);
        gb_share_give(&team.share, chunk);
    } else if (m->top == m->stack + TEAM_STACK) {
        gb_lock_take(&team.share.lock);
        for (size_t i = 0; i < count; i++)
            gb_mark_later(m->gc, m->stack[i]);
        gb_lock_drop(&team.share.lock);
    } else
        return;
    memmove(m->stack, m->stack + count, (size_t)(m->top - m->stack - (ptrdiff_t)count) * sizeof *m->stack);
    m->top -= count;
}

/* Returns the start of the object that contains the address `word`; 0 if there is none. */
static GB_NOINLINE uintptr_t team_inside(const glebe_gc *gc, uintptr_t word)
{
    uintptr_t object;
    return gb_object_at(gc, word, &object) ? object : 0;
}

/* Clears the bit, and returns whether it was set. */
GB_INLINE bool team_claim(team_half *bits, uint32_t bit)
{
    return __atomic_load_n(bits, __ATOMIC_RELAXED) & bit && __atomic_fetch_and(bits, ~bit, __ATOMIC_RELAXED) & bit;
}

/* Marks the object that `word` refers to, if it refers to any. */
GB_INLINE void team_word(gb_marker *m, uintptr_t word)
{
    size_t offset = word - m->base;
    if (GB_LIKELY(offset >= m->bytes)) {
        if (GB_UNLIKELY(word - m->gc->huge_from < m->gc->huge_span))
            team_huge(m, word);
        return;
    }
    size_t i = offset / GB_CELL_BYTES;
    uint32_t bit = (uint32_t)1 << i % 32;
    if (m->allocated[i / 32] & bit) {
        if (!team_claim(&m->unmarked[i / 32], bit))
            return;
    } else {
        if ((word = team_inside(m->gc, word)) == 0)
            return;
        i = gb_cell(word);
        if (!team_claim(&m->unmarked[i / 32], (uint32_t)1 << i % 32))
            return;
    }
    if (GB_UNLIKELY(m->top == m->stack + TEAM_STACK))
        team_give(m);
    *m->top++ = word & ~(uintptr_t)(GB_CELL_BYTES - 1);
}

/* ---- scans ---- */

static void team_words(gb_marker *m, uintptr_t at, uintptr_t end)
{
    for (; at < end; at += sizeof at)
        team_word(m, *(const team_reference *)at);
}

/* Scans [at, end), where an element of the layout begins. */
static void team_elements(gb_marker *m, uintptr_t layout, uintptr_t at, uintptr_t end)
{
    size_t words = gb_layout_words(layout), w = 0;
    if (layout == 0)
        team_words(m, at, end);
    else
        for (; at < end; at += sizeof at) {
            if (layout & 1 ? layout >> (1 + GLEBE_GC_LAYOUT_BITS) >> w & 1
                           : ((const glebe_gc_layout *)layout)->bits[w / 8] >> w % 8 & 1)
                team_word(m, *(const team_reference *)at);
            w = w + 1 < words ? w + 1 : 0;
        }
}

static void team_object(gb_marker *m, uintptr_t layout, uintptr_t object, size_t bytes)
{
    const glebe_gc_kind *kind = gb_kind_of(layout);
    if (kind && kind->mark) {
        m->inside = true;
        kind->mark(m->gc, (void *)object, bytes, kind);
        m->inside = false;
    } else if (layout != GB_PLAIN && !(kind && kind->layout == GB_PLAIN))
        team_elements(m, kind ? kind->layout : layout, object, object + bytes);
}

static GB_NOINLINE void team_sparse(gb_marker *m, const gb_page *entry, uintptr_t object)
{
    const gb_page *page = gb_page_head((gb_page *)entry);
    team_object(m, page->layout, object, page->step);
}

/* Scans all that the marker's stack leads to. */
static void team_drain(gb_marker *m)
{
    for (;;) {
        while (m->top != m->stack && m->end - m->first < TEAM_AHEAD) {
            uintptr_t object = *--m->top;
            gb_page *entry = (gb_page *)m->table + ((object - m->base) >> GB_SLICE_LOG2);
            if (entry->dense == 0 && gb_page_head(entry)->layout == GB_PLAIN)
                continue;
            __builtin_prefetch((const void *)object);
            m->ahead[m->end++ % TEAM_AHEAD] = object;
        }
        if (m->first == m->end)
            return;
        uintptr_t object = m->ahead[m->first++ % TEAM_AHEAD];
        const gb_page *entry = m->table + ((object - m->base) >> GB_SLICE_LOG2);
        m->scanned++;
        if (GB_LIKELY(entry->dense))
            team_words(m, object, object + entry->dense);
        else
            team_sparse(m, entry, object);
        if (GB_UNLIKELY(gb_load_relaxed(&team.share.wanted)) && m->top - m->stack >= TEAM_GIVES_FROM)
            team_give(m);
    }
}

/* Scans a long range, and all that it leads to, piece by piece: the stack would not hold all of it. */
static void team_long(gb_marker *m, uintptr_t layout, uintptr_t at, uintptr_t end)
{
    size_t words = gb_layout_words(layout), piece = TEAM_PIECE / sizeof at / (words ? words : 1) * words * sizeof at;
    piece = piece ? piece : words * sizeof at;
    for (uintptr_t to; at < end; at = to) {
        to = end - at < piece ? end : at + piece;
        team_elements(m, layout, at, to);
        team_drain(m);
    }
}

/* ---- a marker ---- */

static void marker_start(gb_marker *m, glebe_gc *gc)
{
    const gb_bits *bits = gb_bits_of(gc);
    m->gc = gc;
    m->base = gb_the.base;
    m->bytes = gb_peek(gb_the.slices) << GB_SLICE_LOG2;
    m->table = gb_the.table;
    m->allocated = (const team_half *)bits->allocated;
    m->unmarked = (team_half *)bits->unmarked;
    m->top = m->stack;
    m->scanned = 0;
    m->first = m->end = 0;
    m->inside = false;
}

/* Takes objects that wait. Returns false if none does. */
static bool team_waiting(gb_marker *m)
{
    gb_huge_object huge = {0};
    gb_lock_take(&team.share.lock);
    size_t count = (size_t)(gb_mark_waiting(m->gc) - m->gc->stack);
    memcpy(m->stack, m->gc->stack, count * sizeof *m->stack);
    m->top = m->stack + count;
    uint32_t number = m->gc->huge_waiting;
    if (number) {
        huge = ((gb_huge_object *)m->gc->huge.items)[number - 1];
        m->gc->huge_waiting = huge.next;
    }
    gb_lock_drop(&team.share.lock);
    if (!number)
        return count != 0;
    const glebe_gc_kind *kind = gb_kind_of(huge.layout);
    if (kind)
        team_object(m, huge.layout, huge.from, huge.to - huge.from);
    else
        team_long(m, huge.layout, huge.from, huge.to);
    return true;
}

/* Marks until no marker has work. */
static void marker_work(gb_marker *m)
{
    for (gb_work *chunk = NULL;;) {
        do
            team_drain(m);
        while (team_waiting(m));
        if ((chunk = gb_share_take(&team.share, chunk)) == NULL)
            return;
        memcpy(m->stack, chunk->items, chunk->count * sizeof *m->stack);
        m->top = m->stack + chunk->count;
    }
}

/* A helper's life. */
static void team_helper(void)
{
    for (uint32_t seen = 0, round;;) {
        while ((round = gb_load(&team.round)) == seen)
            gb_port_wait(&team.round, round, UINT32_MAX);
        seen = round;
        if (!gb_share_join(&team.share))
            continue;
        gb_marker marker;
        marker_start(&marker, team.gc);
        team_self = &marker;
        marker_work(&marker);
        team_self = NULL;
        gb_add(&team.scanned_by_helpers, (size_t)marker.scanned);
    }
}

/* ---- a collection ---- */

/* Returns whether helpers are worth waking. Before the first collection nothing is known to be live. */
static bool team_serves(const glebe_gc *gc)
{
    return gc->helpers && gc->live_bytes + gc->taken_bytes / 2 >= TEAM_LEAST_BYTES && !gb_bits_shared(gc);
}

void gb_team_prepare(glebe_gc *gc)
{
    size_t bytes = (gc->live_bytes + gc->taken_bytes) / TEAM_LIVE_SHARE;
    if (!GB_RUNTIMES || !team_serves(gc) || gb_load(&team.busy) || (team.owner && team.owner != gc))
        return;
    while (gb_load_relaxed(&team.helpers) < gc->helpers && gb_port_thread_start(team_helper))
        gb_add(&team.helpers, 1);
    if (bytes <= team.chunks_bytes)
        return;
    bytes = gb_round_up(2 * bytes, sizeof(gb_work));
    char *chunks = gb_alloc(gc->heap, bytes);
    if (!chunks)
        return;
    gb_share_end(&team.share);
    team.share.empty = NULL;
    if (team.chunks)
        gb_free("glebe_gc", gc->heap, team.chunks);
    team.owner = gc;
    team.chunks = chunks;
    team.chunks_bytes = bytes;
    for (size_t at = 0; at + sizeof(gb_work) <= bytes; at += sizeof(gb_work))
        gb_share_add(&team.share, (gb_work *)(chunks + at));
}

void gb_team_begin(glebe_gc *gc)
{
    if (!GB_RUNTIMES || !team_serves(gc) || team.owner != gc || gb_load_relaxed(&team.helpers) == 0
        || gb_swap(&team.busy, 1))
        return;
    team.gc = gc; /* all helpers have left the last marking: they read it only after they joined */
    marker_start(&team.main, gc);
    gc->team = team_self = &team.main;
    gb_share_start(&team.share);
    gb_add(&team.round, 1);
    gb_port_wake(&team.round);
}

void gb_team_end(glebe_gc *gc)
{
    if (!GB_RUNTIMES || !gc->team)
        return;
    marker_work(&team.main);
    gc->team = team_self = NULL;
    gc->scanned_by[0] += team.main.scanned;
    gc->scanned_by[1] += atomic_exchange_explicit(&team.scanned_by_helpers, 0, memory_order_relaxed);
    gb_store(&team.busy, 0);
}

void gb_team_range(glebe_gc *gc, uintptr_t start, uintptr_t end)
{
    (void)gc;
    if (team_self == &team.main && !team.main.inside)
        team_long(team_self, 0, start, end);
    else
        team_words(team_self, start, end);
}

void gb_team_mark(glebe_gc *gc, uintptr_t word)
{
    (void)gc;
    team_word(team_self, word);
}

void gb_team_forget(const glebe_gc *gc)
{
    if (!GB_RUNTIMES || team.owner != gc)
        return;
    gb_share_end(&team.share);
    team.share.empty = NULL;
    team.owner = NULL;
    team.chunks = NULL;
    team.chunks_bytes = 0;
}

/* The threads of the team are gone. */
void gb_team_forked(void)
{
    gb_store(&team.helpers, 0);
    gb_store(&team.busy, 0);
    team.share = (gb_share){.empty = team.share.empty};
}
