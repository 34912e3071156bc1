/* Marking on hosts: the loop that scans small objects, while the processor fetches the memory of those that follow.
 * mark.c has the rest, and the loop for linear memory.
 *
 *     stack  | o o o o o o | o o ... o |           while row A is scanned, what its objects refer to is marked and
 *                    16 ──────┘        ^top        pushed, and row B is fetched. Then the rows change places
 *     row B  | o o ... o |  fetched
 *     row A  | o o ... o |  scanned
 *
 * 1. A row has where each object begins and ends, from the entry of its slice, which is read once. Plain objects are
 *    dropped there: their memory is not touched.
 * 2. Objects that are not dense (large, or with a layout) are scanned first, by gb_mark_sparse, which asks for room at
 *    each reference. Each may leave its rest on the stack, beyond the stack's end: there are 16 places for these.
 *    Before a row is scanned, 16 objects are taken from the stack, or all.
 * 3. For all dense objects of a row one compare finds whether the stack has room for their references. Without room
 *    the older half of the stack is moved to the pages' waiting bits.
 * 4. Where the stack has one object, and no row has any, nothing can be fetched ahead: a list. It needs no rows. */
#include "mark.h"

enum { TRACE_WORD_BYTES = 64 * GB_CELL_BYTES }; /* of memory for a word of bits */

/* Marks the object at `offset` from the region's base, if there is one, and pushes it. `shared` is m->shared, constant
 * in the caller's loop. `room`: the stack has room; else the object waits if it has none. */
GB_INLINE uintptr_t *trace_offset(
    glebe_gc *gc, const gb_marking *m, size_t offset, uintptr_t *top, bool shared, bool room)
{
    if (GB_UNLIKELY(offset >= m->bytes)) {
        gb_mark_far(gc, m->base + offset);
        return top;
    }
    if (shared && !gb_collects(gc, m->table + (offset >> GB_SLICE_LOG2)))
        return top;
    for (;;) {
        uint64_t *bits = (uint64_t *)m->unmarked + offset / TRACE_WORD_BYTES, unmarked = *bits;
        size_t cell = offset / GB_CELL_BYTES;
        if (GB_LIKELY(unmarked >> cell % 64 & 1)) {
            *bits = unmarked ^ (uint64_t)1 << cell % 64;
            uintptr_t object = (offset & ~(uintptr_t)(GB_CELL_BYTES - 1)) + m->base;
            if (room || GB_LIKELY(top < m->end))
                *top++ = object;
            else
                gb_mark_later(gc, object);
            return top;
        }
        if (((const uint64_t *)m->allocated)[offset / TRACE_WORD_BYTES] >> cell % 64 & 1)
            return top;
        uintptr_t object = gb_mark_inside(gc, m->base + offset);
        if (!object)
            return top;
        offset = object - m->base;
    }
}

/* Long ranges have many zeros and small numbers, and four words below the region are recognized at once: none of them
 * is larger than all their bits. */
GB_INLINE uintptr_t *trace_long(
    glebe_gc *gc, const gb_marking *marking, uintptr_t at, uintptr_t end, uintptr_t *top, bool shared)
{
    enum { WORDS = 4, GROUP_BYTES = WORDS * sizeof(uintptr_t) };
    const gb_marking m = *marking;
    for (; end - at >= GROUP_BYTES; at += GROUP_BYTES) {
        const gb_word *w = (const gb_word *)at;
        if ((w[0] | w[1] | w[2] | w[3]) < m.least)
            continue;
        for (int i = 0; i < WORDS; i++)
            if (GB_UNLIKELY(w[i] - m.base < m.reach))
                top = trace_offset(gc, &m, w[i] - m.base, top, shared, false);
    }
    for (; at < end; at += sizeof(uintptr_t))
        if (*(const gb_word *)at - m.base < m.reach)
            top = trace_offset(gc, &m, *(const gb_word *)at - m.base, top, shared, false);
    return top;
}

GB_NOINLINE uintptr_t *gb_mark_long(glebe_gc *gc, const gb_marking *m, uintptr_t at, uintptr_t end, uintptr_t *top)
{
    return m->shared ? trace_long(gc, m, at, end, top, true) : trace_long(gc, m, at, end, top, false);
}

typedef struct trace_row {
    uint32_t dense, sparse; /* numbers of objects */
    size_t bytes; /* of the dense ones */
    uintptr_t from[GB_AHEAD], to[GB_AHEAD], others[GB_AHEAD];
} trace_row;

/* Takes objects from the stack. Returns its new top. */
GB_INLINE uintptr_t *trace_fill(trace_row *row, const gb_marking *m, uintptr_t *stack, uintptr_t *top)
{
    uintptr_t *first = top - stack > GB_AHEAD ? top - GB_AHEAD : stack;
    uint32_t dense = 0, sparse = 0;
    size_t bytes = 0;
    for (const uintptr_t *at = first; at != top; at++) {
        uintptr_t object = *at;
        const gb_page *entry = m->table + ((object - m->base) >> GB_SLICE_LOG2);
        size_t step = entry->dense;
        if (GB_LIKELY(step)) {
            row->from[dense] = object;
            row->to[dense++] = object + step;
            bytes += step;
        } else if (gb_page_head((gb_page *)entry)->layout != GB_PLAIN)
            row->others[sparse++] = object;
        else
            continue;
        __builtin_prefetch((const void *)object);
    }
    row->dense = dense;
    row->sparse = sparse;
    row->bytes = bytes;
    return first;
}

static GB_NOINLINE uintptr_t *trace_sparse(glebe_gc *gc, const gb_marking *m, const trace_row *row, uintptr_t *top)
{
    for (uint32_t i = 0; i < row->sparse; i++) {
        uintptr_t at = row->others[i], end;
        top = gb_mark_sparse(gc, m, m->table + ((at - m->base) >> GB_SLICE_LOG2), &at, &end, top);
        if (at < end)
            top = gb_mark_long(gc, m, at, end, top);
    }
    return top;
}

/* Lets the older half of the stack wait, but for rests of large objects, which begin at no bit. */
static GB_NOINLINE uintptr_t *trace_spill(glebe_gc *gc, const gb_marking *m, uintptr_t *top)
{
    uintptr_t *to = gc->stack, *half = gc->stack + (top - gc->stack) / 2;
    for (uintptr_t *at = gc->stack; at != top; at++) {
        const gb_page *page = gb_page_head((gb_page *)m->table + ((*at - m->base) >> GB_SLICE_LOG2));
        if (at < half && (page->magic || *at == gb_page_start(page)))
            gb_mark_later(gc, *at);
        else
            *to++ = *at;
    }
    return to;
}

/* Scans the only object on the stack, while there is one, and it is dense: a list. */
static GB_NOINLINE uintptr_t *trace_chain(glebe_gc *gc, const gb_marking *marking, uintptr_t *top)
{
    const gb_marking m = *marking;
    while (top == gc->stack + 1) {
        uintptr_t at = gc->stack[0], end = at + m.table[(at - m.base) >> GB_SLICE_LOG2].dense;
        if (at == end)
            break;
        for (top = gc->stack; at < end; at += sizeof(uintptr_t)) {
            size_t offset = *(const gb_word *)at - m.base;
            if (offset < m.reach)
                top = trace_offset(gc, &m, offset, top, m.shared, false);
        }
    }
    return top;
}

GB_INLINE void trace_in(glebe_gc *gc, const gb_marking *marking, uintptr_t *top, bool shared)
{
    const gb_marking m = *marking; /* only the original's address is passed on, so that its fields are in registers */
    trace_row rows[2], *row = &rows[0], *ahead = &rows[1];
    ahead->dense = ahead->sparse = 0;
    for (;;) {
        if (GB_UNLIKELY(ahead->dense + ahead->sparse == 0)) {
            if (top == gc->stack + 1)
                top = trace_chain(gc, marking, top);
            if (top == gc->stack && (top = gb_mark_waiting(gc)) == gc->stack)
                return;
            top = trace_fill(row, &m, gc->stack, top);
        } else {
            trace_row *next = row;
            row = ahead;
            ahead = next;
        }
        ahead->dense = ahead->sparse = 0;
        if (GB_LIKELY(top != gc->stack))
            top = trace_fill(ahead, &m, gc->stack, top);
        if (GB_UNLIKELY(row->sparse))
            top = trace_sparse(gc, marking, row, top);
        uint32_t dense = row->dense;
        if (GB_UNLIKELY((uintptr_t)top + row->bytes > (uintptr_t)m.end)) {
            top = trace_spill(gc, marking, top);
            for (; (uintptr_t)top + row->bytes > (uintptr_t)m.end && dense; dense--)
                top = gb_mark_long(gc, marking, row->from[dense - 1], row->to[dense - 1], top);
        }
        for (uint32_t i = 0; i < dense; i++) {
            uintptr_t at = row->from[i], end = row->to[i];
            do {
                size_t first = ((const gb_word *)at)[0] - m.base, second = ((const gb_word *)at)[1] - m.base;
                if (GB_UNLIKELY(first < m.reach))
                    top = trace_offset(gc, &m, first, top, shared, true);
                if (GB_UNLIKELY(second < m.reach))
                    top = trace_offset(gc, &m, second, top, shared, true);
            } while ((at += GB_CELL_BYTES) < end);
        }
    }
}

void gb_trace(glebe_gc *gc, uintptr_t at, uintptr_t end, uintptr_t *top)
{
    const gb_marking m = gb_marking_of(gc);
    if (at < end)
        top = gb_mark_long(gc, &m, at, end, top);
    if (m.shared)
        trace_in(gc, &m, top, true);
    else
        trace_in(gc, &m, top, false);
}
