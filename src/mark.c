/* Marking: which objects can be reached.
 *
 *     roots --> a word --> not an address of ours, or free, or marked already: nothing
 *                      --> else its bit is set, and unless it is plain, its address goes on the stack --> its words, likewise
 *
 * The stack has a bound. What finds no room leaves its page on the overflow list; when the stack is empty those pages are gone
 * through again, and all that is marked there is scanned: so marking ends whatever memory there is. Large objects are scanned in
 * pieces, so that a long array does not fill the stack. Nothing here allocates, and nothing calls out. */
#include "core.h"

enum { PIECE_BYTES = 4096 };

/* Whatever the program keeps there, compilers that see both must not take the one for unrelated to the other. */
typedef uintptr_t __attribute__((may_alias)) gb_word;

gb_page *gb_object_at(const glebe_gc *gc, uintptr_t word, uint32_t *index)
{
    size_t i = (word - gb_the.base) >> GB_SLICE_LOG2;
    if (i >= gb_peek(gb_the.slices))
        return NULL;
    gb_page *page = gb_page_head(gb_the.table + i);
    if (page->kind < GB_COLLECTED || gb_load_relaxed(&page->heap) != gc->heap->number)
        return NULL;
    *index = gb_object_index(page, word - gb_page_start(page));
    return *index < page->cap && gb_bit(gb_object_bits(gb_the.allocated, page), *index) ? page : NULL;
}

static GB_COLD void mark_overflow(glebe_gc *gc, gb_page *page)
{
    if (page->flags)
        return;
    page->flags = 1;
    page->inbox_next = gc->overflow;
    gc->overflow = gb_page_number(page);
}

/* What does not change while marking runs, in locals: the compiler could not know it of the region's fields. */
typedef struct gb_marking {
    uintptr_t base;
    size_t slices;
    gb_page *table;
    uint64_t *allocated, *marked;
    uint32_t heap, room;
    uintptr_t *stack;
} gb_marking;

/* A word that counts: the object that it leads to is marked, and goes on the stack unless it is plain. */
GB_INLINE void mark_word(glebe_gc *gc, const gb_marking *m, uintptr_t word, uint32_t *count)
{
    size_t slice = (word - m->base) >> GB_SLICE_LOG2;
    if (slice >= m->slices)
        return;
    gb_page *page = gb_page_head(m->table + slice);
    if (page->kind < GB_COLLECTED || gb_load_relaxed(&page->heap) != m->heap)
        return;
    uintptr_t start = m->base + ((uintptr_t)(page - m->table) << GB_SLICE_LOG2);
    uint32_t index = gb_object_index(page, word - start);
    size_t bits = (size_t)(page - m->table) * (GB_SLICE_BITS / 64) + index / 64;
    uint64_t bit = (uint64_t)1 << index % 64;
    if (index >= page->cap || (m->allocated[bits] & ~m->marked[bits] & bit) == 0)
        return;
    m->marked[bits] |= bit;
    if (page->layout == GB_PLAIN)
        return;
    if (GB_LIKELY(*count < m->room))
        m->stack[(*count)++] = start + (size_t)index * page->step;
    else
        mark_overflow(gc, page);
}

/* Words that a descriptor names, from the element's word number `w` on. */
static GB_NOINLINE uint32_t mark_outside(glebe_gc *gc, const gb_marking *m, uintptr_t at, uintptr_t end, size_t w, const glebe_gc_layout *layout, uint32_t count)
{
    for (; at < end && layout->words; at += sizeof(uintptr_t)) {
        if (layout->bits[w / 8] >> w % 8 & 1)
            mark_word(gc, m, *(const gb_word *)at, &count);
        w = w + 1 < layout->words ? w + 1 : 0;
    }
    return count;
}

/* Scans [at, end), where every word counts, and whatever that leads to. */
static void mark_run(glebe_gc *gc, uintptr_t at, uintptr_t end)
{
    const gb_marking m = {gb_the.base, gb_peek(gb_the.slices), gb_the.table, gb_the.allocated, gb_the.marked, gc->heap->number, gc->stack_room, gc->stack};
    uint32_t count = gc->stack_count;
    uintptr_t inside = 1; /* which words of an element count, */
    size_t stride = sizeof(uintptr_t); /* and its bytes */
    for (;;) {
        for (; at < end; at += stride)
            for (uintptr_t bits = inside; bits; bits &= bits - 1) {
                uintptr_t word = at + sizeof(uintptr_t) * (size_t)__builtin_ctzll(bits);
                if (word < end)
                    mark_word(gc, &m, *(const gb_word *)word, &count);
            }
        if (count == 0)
            break;
        at = m.stack[--count]; /* an object's start, or that of a further piece */
        const gb_page *page = gb_page_head(m.table + ((at - m.base) >> GB_SLICE_LOG2));
        uintptr_t layout = page->layout, start = at;
        end = at + page->step;
        inside = 1;
        stride = sizeof(uintptr_t);
        if (GB_LIKELY(layout & 1)) {
            inside = layout >> (1 + GLEBE_GC_LAYOUT_BITS);
            stride = (layout >> 1 & (((uintptr_t)1 << GLEBE_GC_LAYOUT_BITS) - 1)) * sizeof(uintptr_t);
        }
        if (GB_UNLIKELY(page->magic == 0)) { /* a large object, in pieces of whole elements */
            start = m.base + ((uintptr_t)(page - m.table) << GB_SLICE_LOG2);
            end = start + page->step;
            size_t piece = PIECE_BYTES / stride * stride;
            if (end - at > piece) { /* there is room: one was just taken */
                end = at + piece;
                m.stack[count++] = end;
            }
        }
        if (GB_UNLIKELY(layout != 0 && (layout & 1) == 0)) {
            const glebe_gc_layout *outside = (const glebe_gc_layout *)layout;
            size_t words = outside->words ? outside->words : 1;
            count = mark_outside(gc, &m, at, end, (at - start) / sizeof(uintptr_t) % words, outside, count);
            at = end;
        }
    }
    gc->stack_count = 0;
}

/* What is reachable from an object, which is marked. */
static void mark_from(glebe_gc *gc, uintptr_t object)
{
    gc->stack[0] = object;
    gc->stack_count = 1;
    mark_run(gc, 0, 0);
}

static void mark_drain(glebe_gc *gc)
{
    while (gc->overflow) {
        gb_page *page = gb_page_at(gc->overflow);
        gc->overflow = page->inbox_next;
        page->flags = 0;
        gc->stats.overflows++;
        const uint64_t *marked = gb_object_bits(gb_the.marked, page);
        for (uint32_t i = 0; i < page->cap; i++)
            if (gb_bit(marked, i))
                mark_from(gc, gb_object_start(page, i));
    }
}

void gb_mark_begin(glebe_gc *gc)
{
    gc->stack_count = gc->overflow = 0;
    gc->roots_bytes = 0;
    gc->marking = true;
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
    else
        mark_from(gc, object);
    mark_drain(gc);
}

bool gb_object_marked(const glebe_gc *gc, uintptr_t object)
{
    uint32_t index;
    const gb_page *page = gb_object_at(gc, object, &index);
    return page && gb_bit(gb_object_bits(gb_the.marked, page), index);
}
