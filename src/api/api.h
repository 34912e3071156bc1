/* What the public functions share. */
#ifndef GB_API_H
#define GB_API_H

#include "../serve/serve.h"

#pragma GCC visibility push(hidden)

/* ---- pool ---- */
/* True if [at, at + units) lies in the part that the pool carved since it was created or reset, and starts on a
 * unit. */
bool gb_pool_holds(const gb_pool *pool, uintptr_t at, size_t units);
/* The end of the carved part of a span, and the next span that has such a part. */
GB_INLINE uintptr_t gb_pool_carved(const gb_pool *pool, const gb_span *span)
{
    return span == pool->current ? pool->fresh : span->end;
}
GB_INLINE gb_span *gb_pool_next(const gb_pool *pool, const gb_span *span)
{
    return span == pool->current ? NULL : span->next;
}
/* Pools of spans, which grow piece by piece: where address space is short a pool is not one piece. */
#define GB_POOL_SPANS (GB_LINEAR || sizeof(void *) == 4)
#define GB_POOL_POISON 0xdb /* fills free objects in the audit build */
/* In a pool's states (audit build): 0 inside an object, else its units, and whether it is in use. */
#define GB_POOL_USED 0x8000u
#define GB_POOL_UNITS_MAX 1024

/* ---- options ---- */
void gb_options_read(void);

#pragma GCC visibility pop

#endif
