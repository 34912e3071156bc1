/* What the two loops of marking share: mark.c's, for linear memory, and trace.c's, for hosts. */
#ifndef GB_MARK_H
#define GB_MARK_H

#include "gc.h"

#pragma GCC visibility push(hidden)

/* A word of the program's memory. The program may access it by any type, so it may alias any of them. */
typedef uintptr_t __attribute__((may_alias)) gb_word;
/* The bit tables as words of 32 bits: bit i of a table is bit i % 32 of word i / 32, as processors are little-endian.
 * In WebAssembly a bit of 32 is found with fewer instructions than one of 64. */
typedef uint32_t __attribute__((may_alias)) gb_half;

/* trace.c takes so many objects from the stack at a time, and each may leave one entry there beyond the stack's end. */
#define GB_AHEAD (!GB_TRACES ? 0 : GB_MARK_STACK >= 64 ? 16 : 2)

/* Values that are constant while marking runs, copied to locals: the compiler cannot know that the region's fields do
 * not change. */
typedef struct gb_marking {
    uintptr_t base;
    size_t bytes; /* from `base`, which have bits */
    size_t reach; /* from `base`, to the end of all objects, huge ones too: most words are numbers, beyond it */
    uintptr_t least; /* no object is below this address */
    /* tables, by gb_mark_offset */
    const gb_page *table;
    const gb_half *allocated;
    gb_half *unmarked;
    const uintptr_t *end; /* of the stack */
    bool shared; /* other collectors use these bits too */
} gb_marking;

/* Returns the offset of an address that the tables of `m` are for. In linear memory they begin, as it were, with
 * address 0, so that a word is its own offset. */
GB_INLINE size_t gb_mark_offset(const gb_marking *m, uintptr_t word) { return GB_TRACES ? word - m->base : word; }

/* Returns the bytes from the region's base to the end of all objects, if no object is below it. */
GB_INLINE size_t gb_marking_reach(const glebe_gc *gc, size_t bytes)
{
    if (!GB_HUGE || gc->huge_span == 0)
        return bytes;
    size_t end = gc->huge_from + gc->huge_span - gb_the.base;
    return gc->huge_from < gb_the.base ? SIZE_MAX : end > bytes ? end : bytes;
}

GB_INLINE gb_marking gb_marking_of(const glebe_gc *gc)
{
    const gb_bits *bits = gb_bits_of(gc);
    size_t bytes = gb_peek(gb_the.slices) << GB_SLICE_LOG2;
    bool below = GB_HUGE && gc->huge_span && gc->huge_from < gb_the.base;
    size_t before = GB_TRACES ? 0 : gb_the.base >> GB_SLICE_LOG2, bits_before = before * GB_SLICE_BITS / 8;
    return (gb_marking){gb_the.base, bytes, gb_marking_reach(gc, bytes), below ? 0 : gb_the.base,
        (const gb_page *)((uintptr_t)gb_the.table - before * sizeof(gb_page)),
        (const gb_half *)((uintptr_t)bits->allocated - bits_before),
        (gb_half *)((uintptr_t)bits->unmarked - bits_before), gc->stack + GB_MARK_STACK - GB_AHEAD,
        gb_bits_shared(gc)};
}

/* Marks the object that `word`, which is in no slice, refers to. */
GB_INLINE void gb_mark_far(glebe_gc *gc, uintptr_t word)
{
    if (GB_HUGE && GB_UNLIKELY(word - gc->huge_from < gc->huge_span))
        gb_mark_huge(gc, word);
}
/* Returns the start of the object that contains the address `word`; 0 if there is none, or it is marked. */
uintptr_t gb_mark_inside(const glebe_gc *gc, uintptr_t word);
/* Scans [at, end), where every word may be a reference, however full the stack is. Returns the stack's new top. Not in
 * linear memory. */
uintptr_t *gb_mark_long(glebe_gc *gc, const gb_marking *m, uintptr_t at, uintptr_t end, uintptr_t *top);
/* Scans an object with a layout, or a piece of a large one, that is not plain. Sets [*at, *end) to the rest, an even
 * number of words; the caller scans every one of them. */
uintptr_t *gb_mark_sparse(
    glebe_gc *gc, const gb_marking *m, const gb_page *entry, uintptr_t *at, uintptr_t *end, uintptr_t *top);
/* Scans [at, end), an even number of words, and marks all that is reachable from there, and from the stack up to `top`.
 * Not in linear memory. */
void gb_trace(glebe_gc *gc, uintptr_t at, uintptr_t end, uintptr_t *top);

#pragma GCC visibility pop

#endif
