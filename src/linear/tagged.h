/* Blocks with tags (tagged.c has the picture): from a tag to its neighbours, and the lists of free blocks. One thread
 * at a time works here: either there are no threads, or callers hold the lock of entry.h. */
#ifndef GB_TAGGED_H
#define GB_TAGGED_H

#include "../region/page_map.h"

enum {
    GB_TAG_USED = 1,
    GB_TAG_BEFORE_USED = 2,
    /* with GB_TAG_USED: the block begins with a gb_owned; without: a gb_owned is in front of this tag */
    GB_TAG_OWNED = 4,
    GB_TAG_WARM = 8, /* with GB_TAG_USED: the block is gb_the.linear.warm */
};
enum { GB_TAGGED_LEAST = (2 * sizeof(void *) + 8 + 15) & ~15 };

GB_INLINE uint32_t gb_tagged_bytes(const gb_tagged *c) { return c->tag & ~(uint32_t)15; }
GB_INLINE gb_tagged *gb_tagged_next(const gb_tagged *c, uint32_t bytes) { return (gb_tagged *)((uintptr_t)c + bytes); }

/* The first byte of a block is GB_TAG_BYTES behind its gb_tagged. */
GB_INLINE uintptr_t gb_tagged_start(const gb_tagged *c) { return (uintptr_t)c + GB_TAG_BYTES; }
GB_INLINE gb_tagged *gb_tagged_at(uintptr_t start) { return (gb_tagged *)(start - GB_TAG_BYTES); }

/* Below GB_TAGGED_EXACT each length has a bin of its own; above there are sixteen bins per doubling. */
GB_INLINE uint32_t gb_tagged_bin(uint32_t bytes)
{
    if (GB_LIKELY(bytes < GB_TAGGED_EXACT))
        return bytes / 16;
    uint32_t shift = 27 - (uint32_t)__builtin_clz(bytes);
    return (bytes >> shift) + (shift << 4) + GB_TAGGED_EXACT / 16 - (8 << 4);
}

/* Takes a block off its list. The bit of the bin stays set until a search finds the bin empty. */
GB_INLINE void gb_tagged_unlink(gb_tagged *c)
{
    gb_tagged *next = c->next;
    *c->link = next;
    if (next)
        next->link = c->link;
}

/* Makes [c, c + bytes) a free block, between blocks in use. */
GB_INLINE void gb_tagged_link(gb_tagged *c, uint32_t bytes)
{
    uint32_t bin = gb_tagged_bin(bytes);
    gb_tagged *next = gb_the.linear.bins[bin];
    gb_the.linear.bins[bin] = c;
    c->tag = bytes | GB_TAG_BEFORE_USED;
    c->next = next;
    c->link = &gb_the.linear.bins[bin];
    if (next)
        next->link = &c->next;
    else
        gb_the.linear.filled[bin / 64] |= (uint64_t)1 << bin % 64;
    gb_tagged_next(c, bytes)->before = bytes;
}

/* Takes the first `bytes` of the free block c into use; the rest stays free. */
GB_INLINE void gb_tagged_split(gb_tagged *c, uint32_t bytes)
{
    uint32_t rest = gb_tagged_bytes(c) - bytes;
    gb_tagged_unlink(c);
    if (rest >= GB_TAGGED_LEAST)
        gb_tagged_link(gb_tagged_next(c, bytes), rest);
    else {
        bytes += rest;
        gb_tagged_next(c, bytes)->tag |= GB_TAG_BEFORE_USED;
    }
    c->tag = bytes | GB_TAG_USED | GB_TAG_BEFORE_USED;
    gb_the.linear.used += bytes;
    uintptr_t end = (uintptr_t)c + bytes;
    if (GB_UNLIKELY(end > gb_the.linear.fresh)) {
        if (gb_tagged_start(c) >= gb_the.linear.fresh) { /* was never used: zero except for its tags as a free block */
            c->next = NULL;
            c->link = NULL;
            gb_tagged_next(c, bytes)->before = 0;
        }
        gb_the.linear.fresh = end;
    }
}

#endif
