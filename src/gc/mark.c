/* Marking: finds the objects that can be reached.
 *
 *     roots --> a word --> outside our slices, in a free cell, or in a marked object: skip it
 *                      --> otherwise mark the object; unless it is plain, push it on the stack --> scan its words
 *
 * The stack has a bound. If an object does not fit, its page joins the overflow list. When the stack is empty all
 * marked objects of those pages are scanned again. So marking ends however little memory there is. Large objects are
 * scanned in pieces, so that a long array does not fill the stack. Nothing here allocates or calls the program.
 *
 * A word may be any number: the address of another collector's object, or of a block of malloc, whose entries and bits
 * other threads write meanwhile. There marking reads only the slice's owner, which is atomic, and bits that no other
 * collector writes. No lock. */
#include "gc.h"

enum { PIECE_BYTES = 4096 };

/* A word of the program's memory. The program may access it by any type, so it may alias any of them. */
typedef uintptr_t __attribute__((may_alias)) gb_word;

uintptr_t gb_object_bounds(const glebe_gc *gc, uintptr_t word, size_t *bytes)
{
    uintptr_t start;
    const gb_page *page = gb_object_at(gc, word, &start);
    if (page && page->magic
        && start - gc->cursors[page->cursor].at < gc->cursors[page->cursor].end - gc->cursors[page->cursor].at)
        page = NULL; /* the object was not handed out yet */
    const gb_huge_object *huge = !GB_HUGE || page ? NULL : gb_huge_object_at(gc, word);
    *bytes = page ? page->step : huge ? huge->to - huge->from : 0;
    return page ? start : huge ? huge->from : 0;
}

static GB_COLD void mark_overflow(glebe_gc *gc, uintptr_t object)
{
    gb_page *page = gb_page_head(gb_page_entry((const void *)object));
    if (page->gc_flags & GB_OVERFLOWS)
        return;
    page->gc_flags |= GB_OVERFLOWS;
    page->inbox_next = gc->overflow;
    gc->overflow = gb_page_id_of(page);
}

/* Marks the huge object that contains the address `word`, if there is one. `word` is in no slice, and before the end of
 * all huge objects. */
static GB_COLD void mark_huge(glebe_gc *gc, uintptr_t word)
{
    gb_huge_object *object = GB_HUGE ? gb_huge_object_at(gc, word) : NULL;
    if (!object || object->marked)
        return;
    object->marked = true;
    object->waits = object->layout != GB_PLAIN;
    gc->huge_waiting += object->waits;
}

/* Values that are constant while marking runs, copied to locals: the compiler cannot know that the region's fields do
 * not change. */
typedef struct gb_marking {
    uintptr_t base;
    size_t bytes; /* from `base`, which have bits */
    const gb_page *table;
    const uint64_t *allocated;
    uint64_t *unmarked;
    uint32_t room;
    bool shared; /* other collectors use these bits too */
    uintptr_t *stack;
} gb_marking;

/* Returns the start of the object that contains the address `word`, or 0. `word` is not an object's start. */
static GB_NOINLINE uintptr_t mark_inside(const glebe_gc *gc, uintptr_t word)
{
    uintptr_t object;
    return gb_object_at(gc, word, &object) ? object : 0;
}

/* Marks the object that `word`, an address in a slice, refers to, and pushes it on the stack. Most references are to an
 * object's start, so one bit is enough to decide. `shared` is m->shared, constant in the caller's loop. */
GB_INLINE void mark_near(glebe_gc *gc, const gb_marking *m, uintptr_t word, uint32_t *count, bool shared)
{
    size_t offset = word - m->base, i = offset / GB_CELL_BYTES;
    if (shared && !gb_collects(gc, m->table + (offset >> GB_SLICE_LOG2)))
        return;
    if (!gb_bit(m->unmarked, i)) {
        if (gb_bit(m->allocated, i) || (word = mark_inside(gc, word)) == 0)
            return;
        i = (word - m->base) / GB_CELL_BYTES;
        if (!gb_bit(m->unmarked, i))
            return;
    }
    m->unmarked[i / 64] ^= (uint64_t)1 << i % 64;
    if (GB_LIKELY(*count < m->room))
        m->stack[(*count)++] = word & ~(uintptr_t)(GB_CELL_BYTES - 1);
    else
        mark_overflow(gc, word);
}

/* Marks the object that `word`, which is in no slice, refers to. */
GB_INLINE void mark_far(glebe_gc *gc, uintptr_t word)
{
    if (GB_HUGE && GB_UNLIKELY(word - gc->huge_from < gc->huge_span))
        mark_huge(gc, word);
}

/* mark_near out of line, for functions with several calls: most words of a sparse object refer to nothing. */
static GB_NOINLINE uint32_t mark_inner(glebe_gc *gc, const gb_marking *m, uintptr_t word, uint32_t count)
{
    mark_near(gc, m, word, &count, false);
    return count;
}

static GB_NOINLINE uint32_t mark_inner_shared(glebe_gc *gc, const gb_marking *m, uintptr_t word, uint32_t count)
{
    mark_near(gc, m, word, &count, true);
    return count;
}

/* Marks the object that the word at `at` refers to. */
GB_INLINE void mark_at(glebe_gc *gc, const gb_marking *m, uintptr_t at, uint32_t *count)
{
    uintptr_t word = *(const gb_word *)at;
    if (word - m->base < m->bytes)
        *count = GB_HEAPS && m->shared ? mark_inner_shared(gc, m, word, *count) : mark_inner(gc, m, word, *count);
    else
        mark_far(gc, word);
}

/* Returns the bytes of a large object to scan at once, in whole elements. An element may be longer than any object. */
static size_t piece_bytes(size_t words)
{
    enum { PIECE_WORDS = PIECE_BYTES / sizeof(uintptr_t) };
    words = words > PIECE_WORDS ? words : PIECE_WORDS / words * words;
    return words > GB_MAX_BYTES / sizeof(uintptr_t) ? GB_MAX_BYTES : words * sizeof(uintptr_t);
}

/* Scans [at, end), where an element begins. The layout says which words may be references. */
static GB_NOINLINE uint32_t mark_elements(
    glebe_gc *gc, const gb_marking *m, uintptr_t layout, uintptr_t at, uintptr_t end, uint32_t count)
{
    size_t words = gb_layout_words(layout), w = 0;
    if (layout & 1)
        for (; at < end; at += words * sizeof(uintptr_t))
            for (uintptr_t bits = layout >> (1 + GLEBE_GC_LAYOUT_BITS); bits; bits &= bits - 1) {
                uintptr_t word = at + sizeof(uintptr_t) * gb_ctz64(bits);
                if (word < end)
                    mark_at(gc, m, word, &count);
            }
    else
        for (; at < end; at += sizeof(uintptr_t)) {
            if (((const glebe_gc_layout *)layout)->bits[w / 8] >> w % 8 & 1)
                mark_at(gc, m, at, &count);
            w = w + 1 < words ? w + 1 : 0;
        }
    return count;
}

/* Scans an object with a layout, or a piece of a large one. Sets [*at, *end) to the rest; the caller scans every word
 * of it. */
static GB_NOINLINE uint32_t mark_sparse(
    glebe_gc *gc, const gb_marking *m, const gb_page *page, uintptr_t *at, uintptr_t *end, uint32_t count)
{
    uintptr_t from = *at, layout = page->layout;
    *end = from;
    if (layout == GB_PLAIN)
        return count;
    *end += page->step;
    if (GB_UNLIKELY(page->magic == 0)) {
        uintptr_t start = gb_page_start(page), low = start;
        *end = start + page->step;
        if (GB_STACKS && from == start)
            gb_stack_ends(gc, page, &low, &from);
        *at = from;
        size_t piece = piece_bytes(gb_layout_words(layout));
        if (*end - from > piece) { /* the rest fits on the stack: one entry was popped, and none pushed since */
            *end = from + piece;
            m->stack[count++] = *end;
        }
        for (; start < low; start += sizeof(uintptr_t))
            mark_at(gc, m, start, &count);
    }
    if (layout == 0)
        return count;
    *at = *end;
    return mark_elements(gc, m, layout, from, *end, count);
}

static gb_marking marking_of(const glebe_gc *gc)
{
    const gb_bits *bits = gb_bits_of(gc);
    return (gb_marking){gb_the.base, gb_peek(gb_the.slices) << GB_SLICE_LOG2, gb_the.table, bits->allocated,
        bits->unmarked, gc->stack_room, gb_bits_shared(gc), gc->stack};
}

GB_INLINE void mark_run_in(glebe_gc *gc, uintptr_t at, uintptr_t end, bool shared)
{
    const gb_marking m = marking_of(gc);
    uint32_t count = gc->stack_count;
    for (;;) {
        for (; at < end; at += sizeof(uintptr_t)) {
            uintptr_t word = *(const gb_word *)at;
            if (word - m.base < m.bytes)
                mark_near(gc, &m, word, &count, shared);
            else
                mark_far(gc, word);
        }
        if (count == 0)
            break;
        at = m.stack[--count]; /* the start of an object, or of a further piece */
        const gb_page *page = m.table + ((at - m.base) >> GB_SLICE_LOG2);
        page = (const gb_page *)((uintptr_t)page - page->back_bytes);
        end = at + page->step;
        if (!page->dense)
            count = mark_sparse(gc, &m, page, &at, &end, count);
    }
    gc->stack_count = 0;
}

/* Scans [at, end), where every word may be a reference, and marks all objects reachable from there. */
static void mark_run(glebe_gc *gc, uintptr_t at, uintptr_t end)
{
    if (gb_bits_shared(gc))
        mark_run_in(gc, at, end, true);
    else
        mark_run_in(gc, at, end, false);
}

/* Marks all objects reachable from an object that is marked. */
static void mark_from(glebe_gc *gc, uintptr_t object)
{
    gc->stack[0] = object;
    gc->stack_count = 1;
    mark_run(gc, 0, 0);
}

/* Scans a huge object, and marks all objects reachable from it. The stack is empty. */
static void mark_from_huge(glebe_gc *gc, const gb_huge_object *object)
{
    const gb_marking m = marking_of(gc);
    size_t piece = piece_bytes(gb_layout_words(object->layout));
    for (uintptr_t at = object->from, end; at < object->to; at = end) {
        end = object->to - at < piece ? object->to : at + piece;
        if (object->layout)
            gc->stack_count = mark_elements(gc, &m, object->layout, at, end, 0);
        mark_run(gc, object->layout ? end : at, end);
    }
}

/* Scans the huge objects that wait; a scan may add more. Ends when none waits. */
static void mark_huge_waiting(glebe_gc *gc)
{
    gb_huge_object *objects = gc->huge.items;
    while (gc->huge_waiting)
        for (uint32_t i = 0; i < gc->huge.count; i++)
            if (objects[i].waits) {
                objects[i].waits = false;
                gc->huge_waiting--;
                mark_from_huge(gc, &objects[i]);
            }
}

static void mark_drain_once(glebe_gc *gc)
{
    const gb_bits *bits = gb_bits_of(gc);
    for (gb_page *page; (page = gb_page_if(gc->overflow)) != NULL;) {
        gc->overflow = page->inbox_next;
        page->gc_flags &= (uint8_t)~GB_OVERFLOWS;
        gc->stats.overflows++;
        for (uint32_t i = 0; i < page->cap; i++) {
            uintptr_t object = gb_object_start(page, i);
            if (gb_bit(bits->allocated, gb_cell(object)) && !gb_bit(bits->unmarked, gb_cell(object)))
                mark_from(gc, object);
        }
    }
}

static void mark_drain(glebe_gc *gc)
{
    mark_drain_once(gc);
    while (GB_HUGE && gc->huge_waiting) {
        mark_huge_waiting(gc);
        mark_drain_once(gc);
    }
}

void gb_mark_begin(glebe_gc *gc)
{
    gc->stack_count = 0;
    gc->overflow = GB_NO_PAGE;
    gc->roots_bytes = 0;
    gc->born = false;
    gc->marking = true;
}

/* An object allocated while marking runs is marked at once, but the objects that it refers to may not be. */
void gb_mark_born(glebe_gc *gc)
{
    if (!gc->born)
        return;
    gb_cursors_drop(gc);
    for (uint32_t i = 0; i <= GB_CURSORS; i++)
        for (gb_page *page = gb_list_first(gb_collected_list(gc, i)); page; page = gb_list_next(page))
            if (page->gc_flags & GB_BORN) {
                page->gc_flags = 0; /* no page is on the overflow list between two marks */
                mark_overflow(gc, gb_page_start(page));
            }
    gb_huge_object *objects = gc->huge.items;
    for (uint32_t i = 0; GB_HUGE && i < gc->huge.count; i++)
        if (objects[i].born && objects[i].layout != GB_PLAIN) {
            objects[i].waits = true;
            gc->huge_waiting++;
        }
    mark_drain(gc);
}

void gb_mark_range(glebe_gc *gc, uintptr_t start, uintptr_t end)
{
    start = gb_round_up(start, sizeof(uintptr_t));
    end = gb_round_down(end, sizeof(uintptr_t));
    if (start >= end)
        return;
    gc->roots_bytes += end - start;
    mark_run(gc, start, end);
    mark_drain(gc);
}

void gb_mark_object(glebe_gc *gc, uintptr_t object, bool itself)
{
    uintptr_t word = object;
    if (itself)
        mark_run(gc, (uintptr_t)&word, (uintptr_t)(&word + 1));
    else {
        const gb_huge_object *huge = GB_HUGE ? gb_huge_object_at(gc, object) : NULL;
        if (!huge)
            mark_from(gc, object);
        else if (huge->layout != GB_PLAIN)
            mark_from_huge(gc, huge);
    }
    mark_drain(gc);
}

bool gb_object_marked(const glebe_gc *gc, uintptr_t word)
{
    uintptr_t start;
    if (gb_object_at(gc, word, &start))
        return !gb_bit(gb_bits_of(gc)->unmarked, gb_cell(start));
    const gb_huge_object *huge = GB_HUGE ? gb_huge_object_at(gc, word) : NULL;
    return huge && huge->marked;
}
