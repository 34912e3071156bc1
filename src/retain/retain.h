/* Which freed memory is kept, and when it is purged. "Owner" means that the caller is the heap's owner thread, "Locked"
 * that the caller holds the region's lock. */
#ifndef GB_RETAIN_H
#define GB_RETAIN_H

#include "../heap/heap.h"

#pragma GCC visibility push(hidden)

/* ---- purge: physical memory returns to the OS ---- */
/* Purges memory that is due at `now`, lazily if the option says so. `all`: purges all free memory, due or not, never
 * lazily. Returns the bytes purged. */
size_t gb_purge_due(uint32_t now, bool all);
/* Purges memory that was freed at `since` or before, within a budget that a request can afford. Returns false if none
 * is left. */
bool gb_purge_step(uint32_t since);
/* Locked. Purges free runs and idle extents, longest waiting first, until `bytes` are purged or none is left. Returns
 * the bytes purged. */
size_t gb_purge_oldest(size_t bytes);
/* Milliseconds until a purge is due; UINT32_MAX if nothing waits. */
uint32_t gb_purge_wait(uint32_t now);

/* ---- pressure: the program's callback ---- */
/* Calls the callback. Returns false if there is none, this thread is in it already, or it forks. The caller holds no
 * lock. */
bool gb_pressure_tell(uint64_t used, uint64_t limit);

/* ---- retain: which freed memory is kept, and until when ---- */
/* Every slow allocation calls this. Every few calls it looks at the clock, and may do a step of purging. Owner. */
void gb_tick(glebe_heap *heap);
GB_NOINLINE void gb_tick_due(glebe_heap *heap);
/* gb_tick for a common heap. If it returns true, the caller calls gb_tick_left after it has left the heap. */
bool gb_tick_common(glebe_heap *heap);
void gb_tick_left(void);
/* Purges all it can, so that the caller may try again. Returns false if nothing changed. Owner. */
bool gb_make_room(glebe_heap *heap);
/* Frees everything that this heap and abandoned heaps retain, then purges all free memory. Returns the bytes purged.
 * Owner. */
size_t gb_retain_nothing(glebe_heap *heap);
/* Purges memory that is kept beyond the bounds. */
GB_NOINLINE void gb_retain_act(void);
GB_INLINE void gb_retain_bound(void)
{
    if (GB_PURGES && GB_UNLIKELY(gb_load_relaxed(&gb_the.kept.over)))
        gb_retain_act();
}
/* ---- ask: a profile that another process asks for (GB_SAMPLES) ---- */
void gb_ask_tick(void);
void gb_ask_forked(void);

/* The collector calls this when a collection ends. */
void gb_retain_collected(void);
/* Starts the background thread if it does not run. */
void gb_background_start(void);
/* Called in fork's child: the next tick starts the background thread again. */
void gb_background_forked(void);

#pragma GCC visibility pop

#endif
