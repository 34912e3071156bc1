/* Declarations that the public functions share. */
#ifndef GB_API_H
#define GB_API_H

#include "../serve/serve.h"

#pragma GCC visibility push(hidden)

/* ---- the malloc family ---- */
/* realloc for any heap of the thread's. */
void *gb_resize(const char *call, glebe_heap *heap, void *block, size_t bytes);

/* ---- pool ---- */
/* Returns whether [at, at + units) starts on a unit, and is in the part that the pool carved since it was created or
 * reset. */
bool gb_pool_holds(const gb_pool *pool, uintptr_t at, size_t units);
/* Return the end of the carved part of a segment, and the next segment that has a carved part. */
GB_INLINE uintptr_t gb_pool_carved(const gb_pool *pool, const gb_segment *segment)
{
    return segment == pool->current ? pool->fresh : segment->end;
}
GB_INLINE gb_segment *gb_pool_next(const gb_pool *pool, const gb_segment *segment)
{
    return segment == pool->current ? NULL : segment->next;
}
/* 1: a pool consists of segments and grows segment by segment, because address space is short; 0: it is one piece. */
#define GB_POOL_SEGMENTS (GB_LINEAR || sizeof(void *) == 4)
#define GB_POOL_POISON 0xdb /* fills free objects in the audit build */
/* The state of a unit (audit build): the units of the object that starts there, + GB_POOL_USED if it is in use; 0: no
 * object starts there. */
#define GB_POOL_USED 0x8000u
#define GB_POOL_UNITS_MAX 1024

/* ---- options ---- */
void gb_options_read(void);
/* Reads a size of at most `most` bytes: DIGITS[.DIGITS][UNIT], rounded down to whole bytes. Returns false if the text
 * is none. */
bool gb_option_size(const char *text, uint64_t most, uint64_t *value);
/* Begins to guard blocks if GLEBE_GUARD says so. Prints a line if that cannot be. */
void gb_guard_begin(void);
/* Prints a line about a variable. `wants` names the values that it takes, or is NULL. */
void gb_option_complain(const char *what, const char *name, const char *value, const char *wants);

#pragma GCC visibility pop

#endif
