/* Memory tags: how the public functions hand blocks out, and take them back. tags.c describes them. */
#ifndef GB_TAGS_H
#define GB_TAGS_H

#include "heap.h"

#pragma GCC visibility push(hidden)

#define GB_TAG_SHIFT 56 /* where an address has its tag, of four bits */
#define GB_TAG_MASK ((uint64_t)15 << GB_TAG_SHIFT)
/* Returns the address without its tag. */
GB_INLINE uintptr_t gb_tag_off(uintptr_t address)
{
    return GB_TAGS ? address & (uintptr_t)~GB_TAG_MASK : address;
}

/* Begins to tag blocks, if the processor can compare tags and the program did not say GLEBE_TAGS=0. */
void gb_tags_begin(void);

/* Draws a tag for a block that malloc is about to return, and returns its address with the tag. */
GB_NOINLINE void *gb_tags_draw(void *block);
GB_INLINE void *gb_with_tag(void *block)
{
    return GB_TAGS && gb_the.tags && block ? gb_tags_draw(block) : block;
}

/* Returns the address without its tag. Returns NULL, after a report, if the block there has another tag. */
GB_NOINLINE void *gb_tags_check(const char *call, const void *block);
GB_INLINE void *gb_without_tag(const char *call, const void *block)
{
    return GB_TAGS && gb_the.tags && block ? gb_tags_check(call, block) : (void *)(uintptr_t)block;
}

/* The same for a block that is about to be freed or moved: clears its tags. */
GB_NOINLINE void *gb_tags_take(const char *call, void *block);
GB_INLINE void *gb_tag_taken(const char *call, void *block)
{
    return GB_TAGS && gb_the.tags && block ? gb_tags_take(call, block) : block;
}

/* After a realloc that failed: gives the block the tag of `tagged` again, the address that the program has. */
void gb_tags_restore(void *tagged);

#pragma GCC visibility pop
#endif
