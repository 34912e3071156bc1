/* A set of the 128 slices of one chunk, in two words. Each operation takes a few shifts; no loop runs over slices. For
 * example, finding the places where n members in a row begin takes log2(n) steps: n in a row begin at i if m in a row
 * begin at i and at i + n - m, where m is at least half of n. */
#ifndef GB_SLICE_SET_H
#define GB_SLICE_SET_H

#include "bits.h"
#include "config.h"

#pragma GCC visibility push(hidden)

_Static_assert(GB_CHUNK_SLICES == 128, "a set is two words");

typedef struct gb_slice_set {
    uint64_t low, high; /* slice 0 is bit 0 of low */
} gb_slice_set;

GB_INLINE bool gb_set_has(gb_slice_set s, uint32_t i) { return (i < 64 ? s.low >> i : s.high >> (i - 64)) & 1; }
GB_INLINE bool gb_set_empty(gb_slice_set s) { return (s.low | s.high) == 0; }
GB_INLINE uint32_t gb_set_count(gb_slice_set s) { return gb_popcount64(s.low) + gb_popcount64(s.high); }

GB_INLINE gb_slice_set gb_set_both(gb_slice_set a, gb_slice_set b)
{
    return (gb_slice_set){a.low & b.low, a.high & b.high};
}
GB_INLINE gb_slice_set gb_set_with(gb_slice_set a, gb_slice_set b)
{
    return (gb_slice_set){a.low | b.low, a.high | b.high};
}
GB_INLINE gb_slice_set gb_set_without(gb_slice_set a, gb_slice_set b)
{
    return (gb_slice_set){a.low & ~b.low, a.high & ~b.high};
}

/* Returns the first member; GB_CHUNK_SLICES if there is none. */
GB_INLINE uint32_t gb_set_first(gb_slice_set s)
{
    return s.low ? gb_ctz64(s.low) : s.high ? 64 + gb_ctz64(s.high) : GB_CHUNK_SLICES;
}

/* i is in the result if i + n is in `s`; requires n < 128. */
GB_INLINE gb_slice_set gb_set_down(gb_slice_set s, uint32_t n)
{
    if (n >= 64)
        return (gb_slice_set){s.high >> (n - 64), 0};
    return (gb_slice_set){s.low >> n | s.high << 1 << (63 - n), s.high >> n};
}

/* [from, from + count) */
GB_INLINE gb_slice_set gb_set_range(uint32_t from, uint32_t count)
{
    uint64_t ones = ~(uint64_t)0, some = count ? ones >> ((64 - count) & 63) : 0;
    if (from >= 64)
        return (gb_slice_set){0, some << (from - 64)};
    if (count > 64) /* the range reaches from low into high */
        return (gb_slice_set){ones << from, from + count >= 128 ? ones : ((uint64_t)1 << (from + count - 64)) - 1};
    return (gb_slice_set){some << from, from ? some >> 1 >> (63 - from) : 0};
}

/* Returns how many members follow without a gap, beginning with `from`; requires from < 128. */
GB_INLINE uint32_t gb_set_run(gb_slice_set s, uint32_t from)
{
    gb_slice_set gaps = gb_set_down((gb_slice_set){~s.low, ~s.high}, from);
    uint32_t first = gb_set_first(gaps), most = GB_CHUNK_SLICES - from;
    return first < most ? first : most;
}

/* Returns how many members precede `at` without a gap; requires at <= 128. */
GB_INLINE uint32_t gb_set_run_before(gb_slice_set s, uint32_t at)
{
    gb_slice_set gaps = gb_set_without(gb_set_range(0, at), s);
    return gaps.high ? at - 65 - gb_log2(gaps.high) : gaps.low ? at - 1 - gb_log2(gaps.low) : at;
}

/* Returns where n > 0 members in a row begin. */
GB_INLINE gb_slice_set gb_set_runs(gb_slice_set s, uint32_t n)
{
    for (uint32_t have = 1; have < n && !gb_set_empty(s);) {
        uint32_t more = n - have < have ? n - have : have;
        s = gb_set_both(s, gb_set_down(s, more));
        have += more;
    }
    return s;
}

/* Returns the members that are multiples of `alignment`, a power of two of at most 64. */
GB_INLINE gb_slice_set gb_set_aligned(gb_slice_set s, uint32_t alignment)
{
    uint64_t multiples = alignment >= 64 ? 1 : ~(uint64_t)0 / (((uint64_t)1 << alignment) - 1);
    return (gb_slice_set){s.low & multiples, s.high & multiples};
}

/* Returns the length of the longest row of members: first the largest power of two that some row has, then the rest
 * by halves. */
GB_INLINE uint32_t gb_set_longest(gb_slice_set s)
{
    gb_slice_set rows[8] = {s}, more; /* rows[k]: where 2^k members begin */
    uint32_t k = 0, longest;
    if (gb_set_empty(s))
        return 0;
    while (k < 7 && !gb_set_empty(more = gb_set_both(rows[k], gb_set_down(rows[k], 1u << k))))
        rows[++k] = more;
    s = rows[k];
    for (longest = 1u << k; k-- > 0;)
        if (longest < GB_CHUNK_SLICES && !gb_set_empty(more = gb_set_both(s, gb_set_down(rows[k], longest)))) {
            s = more;
            longest += 1u << k;
        }
    return longest;
}

#pragma GCC visibility pop

#endif
