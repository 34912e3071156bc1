/* Marking: finds the objects that can be reached.
 *
 *     roots --> a word --> outside our slices, in a free cell, or in a marked object: skip it
 *                      --> otherwise mark the object; push it on the mark stack --> unless it is plain, scan its words
 *
 * The mark stack is short. If it is full, the object waits: a bit beside its mark says so, and its page joins a list.
 * When it is empty, the objects that wait in the first pages of the list move there, by address. So each object is
 * scanned once, however little memory there is. Large objects are scanned in pieces, so that a long array does not fill
 * the stack. Nothing here allocates, and of the program only the functions of kinds are called.
 *
 * A word may be any number: the address of another collector's object, or of a block of malloc, whose entries and bits
 * other threads write meanwhile. There marking reads only the slice's owner, which is atomic, and bits that no other
 * collector writes. No lock. */
#include "mark.h"

enum { PIECE_BYTES = 4096, LONG_BYTES = 1024 };
_Static_assert(GB_MARK_STACK >= 4, "objects that wait fill half of the mark stack");

uintptr_t gb_object_bounds(const glebe_gc *gc, uintptr_t word, size_t *bytes)
{
    uintptr_t start;
    const gb_page *page = gb_object_at(gc, word, &start);
    if (page && page->magic && gb_cursor_has(&gc->cursors[page->cursor], start))
        page = NULL; /* the object was not handed out yet */
    const gb_huge_object *huge = !GB_HUGE || page ? NULL : gb_huge_object_at(gc, word);
    *bytes = page ? page->step : huge ? huge->to - huge->from : 0;
    return page ? start : huge ? huge->from : 0;
}

uintptr_t gb_object_layout(const glebe_gc *gc, uintptr_t word)
{
    uintptr_t start;
    const gb_page *page = gb_object_at(gc, word, &start);
    return page ? page->layout : GB_HUGE ? gb_huge_object_at(gc, word)->layout : 0;
}

/* Adds a page to the list of those with objects that wait, unless it is there. */
static void mark_list(glebe_gc *gc, gb_page *page)
{
    if (page->gc_flags & GB_WAITS)
        return;
    page->gc_flags |= GB_WAITS;
    page->inbox_next = gc->waiting;
    gc->waiting = gb_page_id_of(page);
    gc->stats.overflows += GB_TALLIES;
}

GB_NOINLINE void gb_mark_later(glebe_gc *gc, uintptr_t object)
{
    gb_bit_set(gb_bits_of(gc)->waiting, gb_cell(object));
    mark_list(gc, gb_page_head(gb_page_entry((const void *)object)));
}

/* Returns where the mark stack begins. In linear memory an address of slice 0, where no object is, lies below it, so a
 * pop needs no look at the stack's height. */
GB_INLINE uintptr_t *mark_bottom(glebe_gc *gc) { return gc->stack + !GB_TRACES; }

GB_NOINLINE uintptr_t *gb_mark_waiting(glebe_gc *gc)
{
    uintptr_t *top = mark_bottom(gc), *half = gc->stack + GB_MARK_STACK / 2;
    for (gb_page *page; top < half && (page = gb_page_if(gc->waiting)) != NULL;) {
        uint64_t *waiting = gb_page_bits(gb_bits_of(gc)->waiting, page);
        for (uint32_t i = 0; i < gb_page_words(page); i++)
            for (; waiting[i]; waiting[i] &= waiting[i] - 1) {
                if (top == half)
                    return top;
                *top++ = gb_page_start(page) + (i * 64 + gb_ctz64(waiting[i])) * GB_CELL_BYTES;
            }
        page->gc_flags &= (uint8_t)~GB_WAITS;
        gc->waiting = page->inbox_next;
    }
    return top;
}

/* Makes a huge object wait for its scan. */
static void huge_later(glebe_gc *gc, gb_huge_object *object)
{
    object->next = gc->huge_waiting;
    gc->huge_waiting = (uint32_t)(object - (gb_huge_object *)gc->huge.items) + 1;
}

GB_COLD void gb_mark_huge(glebe_gc *gc, uintptr_t word)
{
    gb_huge_object *object = GB_HUGE ? gb_huge_object_at(gc, word) : NULL;
    if (!object || object->marked)
        return;
    object->marked = true;
    if (object->layout != GB_PLAIN)
        huge_later(gc, object);
}

GB_NOINLINE uintptr_t gb_mark_inside(const glebe_gc *gc, uintptr_t word)
{
    uintptr_t object;
    return gb_object_at(gc, word, &object) && gb_bit(gb_bits_of(gc)->unmarked, gb_cell(object)) ? object : 0;
}

/* Makes the object that was pushed last wait, as it filled the stack. Returns the new top. */
static GB_NOINLINE uintptr_t *mark_full(glebe_gc *gc, uintptr_t *top)
{
    gb_mark_later(gc, *--top);
    return top;
}

/* Marks the object that `word`, an address in a slice, refers to, and pushes it on the stack. Most references are to an
 * object's start, so one bit is enough to decide. `shared` is m->shared, constant in the caller's loop. */
GB_INLINE uintptr_t *mark_near(glebe_gc *gc, const gb_marking *m, uintptr_t word, uintptr_t *top, bool shared)
{
    size_t offset = gb_mark_offset(m, word);
    if (shared && !gb_collects(gc, m->table + (offset >> GB_SLICE_LOG2)))
        return top;
    for (;; offset = gb_mark_offset(m, word)) {
        size_t i = offset / GB_CELL_BYTES;
        gb_half *bits = m->unmarked + i / 32, unmarked = *bits, bit = (gb_half)1 << i % 32;
        if (unmarked & bit) {
            *bits = unmarked ^ bit;
            break;
        }
        if (m->allocated[i / 32] & bit || (word = gb_mark_inside(gc, word)) == 0)
            return top;
    }
    if (!GB_TRACES) { /* one branch less in WebAssembly */
        *top++ = word & ~(uintptr_t)(GB_CELL_BYTES - 1);
        return GB_LIKELY(top != m->end) ? top : mark_full(gc, top);
    }
    if (GB_LIKELY(top < m->end))
        *top++ = word & ~(uintptr_t)(GB_CELL_BYTES - 1);
    else
        gb_mark_later(gc, word);
    return top;
}

/* mark_near out of line, for functions with several calls: most words of a sparse object refer to nothing. */
static GB_NOINLINE uintptr_t *mark_inner(glebe_gc *gc, const gb_marking *m, uintptr_t word, uintptr_t *top)
{
    return mark_near(gc, m, word, top, false);
}

static GB_NOINLINE uintptr_t *mark_inner_shared(glebe_gc *gc, const gb_marking *m, uintptr_t word, uintptr_t *top)
{
    return mark_near(gc, m, word, top, true);
}

/* Marks the object that `word` refers to, if it refers to any. In linear memory, which has no huge objects. */
GB_INLINE uintptr_t *mark_word(glebe_gc *gc, const gb_marking *m, uintptr_t word, uintptr_t *top, bool shared)
{
    return word - m->base < m->bytes ? mark_near(gc, m, word, top, shared) : top;
}

/* Marks the object that the word at `at` refers to. */
GB_INLINE uintptr_t *mark_at(glebe_gc *gc, const gb_marking *m, uintptr_t at, uintptr_t *top)
{
    uintptr_t word = *(const gb_word *)at;
    if (word - m->base < m->bytes)
        return GB_HEAPS && m->shared ? mark_inner_shared(gc, m, word, top) : mark_inner(gc, m, word, top);
    gb_mark_far(gc, word);
    return top;
}

/* Returns the bytes of a large object to scan at once, in whole elements. An element may be longer than any object. */
static size_t piece_bytes(size_t words)
{
    enum { PIECE_WORDS = PIECE_BYTES / sizeof(uintptr_t) };
    words = words > PIECE_WORDS ? words : PIECE_WORDS / words * words;
    return words > GB_MAX_BYTES / sizeof(uintptr_t) ? GB_MAX_BYTES : words * sizeof(uintptr_t);
}

/* Has the kind's function name the references of the object. They go to the stack, from `top` on. */
static GB_NOINLINE uintptr_t *mark_by_kind(
    glebe_gc *gc, const glebe_gc_kind *kind, uintptr_t object, size_t bytes, uintptr_t *top)
{
    gc->top = top;
    kind->mark(gc, (void *)object, bytes, kind);
    top = gc->top;
    gc->top = NULL;
    return top;
}

/* Scans [at, end), where an element begins. The layout says which words may be references. */
static GB_NOINLINE uintptr_t *mark_elements(
    glebe_gc *gc, const gb_marking *m, uintptr_t layout, uintptr_t at, uintptr_t end, uintptr_t *top)
{
    size_t words = gb_layout_words(layout), w = 0;
    if (layout & 1)
        for (; at < end; at += words * sizeof(uintptr_t))
            for (uintptr_t bits = layout >> (1 + GLEBE_GC_LAYOUT_BITS); bits; bits &= bits - 1) {
                w = sizeof bits == 4 ? gb_ctz32((uint32_t)bits) : gb_ctz64(bits);
                uintptr_t word = at + sizeof(uintptr_t) * w;
                if (word < end)
                    top = mark_at(gc, m, word, top);
            }
    else
        for (; at < end; at += sizeof(uintptr_t)) {
            if (((const glebe_gc_layout *)layout)->bits[w / 8] >> w % 8 & 1)
                top = mark_at(gc, m, at, top);
            w = w + 1 < words ? w + 1 : 0;
        }
    return top;
}

bool gb_layout_dense(uintptr_t layout)
{
    uintptr_t words = layout >> 1 & (((uintptr_t)1 << GLEBE_GC_LAYOUT_BITS) - 1);
    return layout == 0
        || (layout & 1 && words < 32 && layout >> (1 + GLEBE_GC_LAYOUT_BITS) == ((uintptr_t)1 << words) - 1);
}

GB_NOINLINE uintptr_t *gb_mark_sparse(
    glebe_gc *gc, const gb_marking *m, const gb_page *entry, uintptr_t *at, uintptr_t *end, uintptr_t *top)
{
    const gb_page *page = gb_page_head((gb_page *)entry);
    uintptr_t from = *at, to = from + page->step, layout = page->layout;
    const glebe_gc_kind *kind = gb_kind_of(layout);
    if (kind && kind->mark) {
        *end = *at;
        return mark_by_kind(gc, kind, from, page->step, top);
    }
    if (kind)
        layout = kind->layout;
    if (!GB_TRACES || GB_UNLIKELY(page->magic == 0)) {
        uintptr_t start = gb_page_start(page), low = start;
        to = start + page->step;
        if (GB_STACKS && from == start)
            gb_stack_ends(gc, page, &low, &from);
        size_t piece = piece_bytes(gb_layout_words(layout));
        if (to - from > piece) { /* the rest fits on the stack: one entry was popped, and none pushed since */
            to = from + piece;
            *top++ = to;
        }
        for (; start < low; start += sizeof(uintptr_t))
            top = mark_at(gc, m, start, top);
        if (gb_layout_dense(layout))
            layout = 0;
    }
    *end = to;
    if (layout) {
        top = mark_elements(gc, m, layout, from, to, top);
        from = to;
    } else if (GB_TRACES && to - from >= LONG_BYTES) {
        top = gb_mark_long(gc, m, from, to, top);
        from = to;
    } else if ((to - from) % GB_CELL_BYTES) {
        top = mark_at(gc, m, from, top);
        from += sizeof(uintptr_t);
    }
    *at = from;
    return top;
}

/* Scans [at, end), an even number of words, and marks all that it leads to: in linear memory. On hosts: trace.c.
 * WebAssembly cannot fetch memory ahead, and each operator counts. Pairs are scanned from the last to the first: one
 * number is both the end and the place. */
GB_INLINE void mark_pairs_linear(glebe_gc *gc, uintptr_t at, uintptr_t end, uintptr_t *top, bool shared)
{
    const gb_marking m = gb_marking_of(gc), copy = m;
    gc->stack[0] = m.base;
    for (size_t left = end - at;;) {
        do {
            const gb_word *pair = (const gb_word *)(at + (left -= GB_CELL_BYTES));
            uintptr_t first = pair[0], second = pair[1];
            top = mark_word(gc, &m, first, top, shared);
            top = mark_word(gc, &m, second, top, shared);
        } while (left);
        while (left == 0) {
            at = *--top;
            const gb_page *entry = m.table + (gb_mark_offset(&m, at) >> GB_SLICE_LOG2);
            if (GB_LIKELY((left = entry->dense) != 0))
                break;
            const gb_page *page = gb_page_head((gb_page *)entry);
            if (page->layout == GB_PLAIN)
                continue;
            if (page->magic)
                top = mark_elements(gc, &copy, page->layout, at, at + page->step, top);
            else if (at != m.base) {
                uintptr_t from = at, to;
                top = gb_mark_sparse(gc, &copy, entry, &from, &to, top);
                at = from;
                left = to - from;
            } else if ((top = gb_mark_waiting(gc)) == mark_bottom(gc))
                return;
        }
    }
}

/* mark_run for an even number of words: small objects are whole cells, which are two words each. */
static GB_NOINLINE void mark_pairs(glebe_gc *gc, uintptr_t at, uintptr_t end, uintptr_t *top)
{
    if (GB_TRACES)
        gb_trace(gc, at, end, top);
    else if (gb_bits_shared(gc))
        mark_pairs_linear(gc, at, end, top, true);
    else
        mark_pairs_linear(gc, at, end, top, false);
}

/* Marks all objects reachable from the stack, up to `top`, and from objects that wait. */
static void mark_pushed(glebe_gc *gc, uintptr_t *top)
{
    uintptr_t nothing[2] = {0};
    mark_pairs(gc, (uintptr_t)nothing, (uintptr_t)(nothing + 2), top);
}

/* Scans [at, end), where every word may be a reference, and the stack up to `top`; marks all objects reachable from
 * there. The range is not empty. */
static void mark_run(glebe_gc *gc, uintptr_t at, uintptr_t end, uintptr_t *top)
{
    if ((end - at) % GB_CELL_BYTES) {
        uintptr_t pair[2] = {*(const gb_word *)at, 0};
        mark_pairs(gc, (uintptr_t)pair, (uintptr_t)(pair + 2), top);
        at += sizeof(uintptr_t);
        top = mark_bottom(gc);
    }
    if (GB_TRACES && end - at >= LONG_BYTES) {
        const gb_marking m = gb_marking_of(gc);
        for (uintptr_t piece; at < end; at = piece) {
            piece = end - at < PIECE_BYTES ? end : at + PIECE_BYTES;
            top = gb_mark_long(gc, &m, at, piece, top);
            if (top != mark_bottom(gc))
                mark_pushed(gc, top);
            top = mark_bottom(gc);
        }
    } else if (at < end)
        mark_pairs(gc, at, end, top);
}

/* Scans a huge object, and marks all objects reachable from it. */
static void mark_from_huge(glebe_gc *gc, const gb_huge_object *object)
{
    const gb_marking m = gb_marking_of(gc);
    const glebe_gc_kind *kind = gb_kind_of(object->layout);
    if (kind && kind->mark) {
        mark_pushed(gc, mark_by_kind(gc, kind, object->from, object->to - object->from, mark_bottom(gc)));
        return;
    }
    uintptr_t layout = kind ? kind->layout : object->layout;
    size_t piece = piece_bytes(gb_layout_words(layout));
    for (uintptr_t at = object->from, end; at < object->to; at = end) {
        end = object->to - at < piece ? object->to : at + piece;
        if (layout)
            mark_pushed(gc, mark_elements(gc, &m, layout, at, end, mark_bottom(gc)));
        else
            mark_run(gc, at, end, mark_bottom(gc));
    }
}

/* Scans the huge objects that wait; a scan may add more. Ends when none waits: so none does when the program, whose
 * allocations move the table, runs again. */
static void mark_huge_waiting(glebe_gc *gc)
{
    while (GB_HUGE && gc->huge_waiting) {
        const gb_huge_object *object = (gb_huge_object *)gc->huge.items + gc->huge_waiting - 1;
        gc->huge_waiting = object->next;
        mark_from_huge(gc, object);
    }
}

void gb_mark_begin(glebe_gc *gc)
{
    gc->waiting = GB_NO_PAGE;
    gc->roots_bytes = 0;
    gc->born = false;
    gc->marking = true;
}

/* An object allocated while marking runs is marked at once, but the objects that it refers to may not be. So all marked
 * objects of its page wait for a scan. */
void gb_mark_born(glebe_gc *gc)
{
    if (!gc->born)
        return;
    const gb_bits *bits = gb_bits_of(gc);
    gb_cursors_drop(gc);
    for (uint32_t i = 0; i <= GB_CURSORS; i++)
        for (gb_page *page = gb_list_first(gb_collected_list(gc, i)); page; page = gb_list_next(page))
            if (page->gc_flags & GB_BORN) {
                page->gc_flags = 0;
                for (uint32_t w = 0; w < gb_page_words(page); w++)
                    gb_page_bits(bits->waiting, page)[w] =
                        gb_page_bits(bits->allocated, page)[w] & ~gb_page_bits(bits->unmarked, page)[w];
                mark_list(gc, page);
            }
    gb_huge_object *objects = gc->huge.items;
    for (uint32_t i = 0; GB_HUGE && i < gc->huge.count; i++)
        if (objects[i].born && objects[i].layout != GB_PLAIN)
            huge_later(gc, &objects[i]);
    mark_pushed(gc, mark_bottom(gc));
    mark_huge_waiting(gc);
}

void gb_mark_range(glebe_gc *gc, uintptr_t start, uintptr_t end)
{
    start = gb_round_up(start, sizeof(uintptr_t));
    end = gb_round_down(end, sizeof(uintptr_t));
    if (start >= end)
        return;
    if (GB_RUNTIMES && gc->team) {
        gb_team_range(gc, start, end);
        return;
    }
    gc->roots_bytes += end - start;
    for (; GB_RUNTIMES && gc->top && start < end; start += sizeof(uintptr_t))
        gb_mark_reference(gc, *(const gb_word *)start);
    if (start < end)
        mark_run(gc, start, end, mark_bottom(gc));
    if (!GB_RUNTIMES || !gc->top)
        mark_huge_waiting(gc);
}

void gb_mark_reference(glebe_gc *gc, uintptr_t word)
{
    if (GB_RUNTIMES && gc->team)
        gb_team_mark(gc, word);
    else if (gc->top) {
        const gb_marking m = gb_marking_of(gc);
        gc->top = mark_at(gc, &m, (uintptr_t)&word, gc->top);
    } else
        gb_mark_object(gc, word, true);
}

void gb_mark_object(glebe_gc *gc, uintptr_t object, bool itself)
{
    const gb_huge_object *huge = GB_HUGE && !itself ? gb_huge_object_at(gc, object) : NULL;
    uintptr_t word = object;
    if (GB_RUNTIMES && gc->team) { /* only roots are marked then: with themselves */
        gb_team_mark(gc, word);
        return;
    }
    if (itself)
        mark_run(gc, (uintptr_t)&word, (uintptr_t)(&word + 1), mark_bottom(gc));
    else if (!huge) {
        *mark_bottom(gc) = object;
        mark_pushed(gc, mark_bottom(gc) + 1);
    } else if (huge->layout != GB_PLAIN)
        mark_from_huge(gc, huge);
    mark_huge_waiting(gc);
}

void gb_batch_mark(glebe_gc *gc, gb_batch *batch)
{
    if (!GB_RUNTIMES || batch->count == 0)
        return;
    if (gc->team)
        for (uint32_t i = 0; i < batch->count; i++)
            gb_team_mark(gc, batch->words[i]);
    else {
        mark_run(gc, (uintptr_t)batch->words, (uintptr_t)(batch->words + batch->count), mark_bottom(gc));
        mark_huge_waiting(gc);
    }
    batch->count = 0;
}

bool gb_object_marked(const glebe_gc *gc, uintptr_t word)
{
    uintptr_t start;
    if (gb_object_at(gc, word, &start))
        return !gb_bit(gb_bits_of(gc)->unmarked, gb_cell(start));
    const gb_huge_object *huge = GB_HUGE ? gb_huge_object_at(gc, word) : NULL;
    return huge && huge->marked;
}
