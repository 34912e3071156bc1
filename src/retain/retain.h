/* Which freed memory is kept, and how it goes back. */
#ifndef GB_RETAIN_H
#define GB_RETAIN_H

#include "../heap/heap.h"

#pragma GCC visibility push(hidden)

/* ---- purge: what gives memory back ---- */
/* Purges what is due at `now`, lazily if the option says so; `all`: everything, due or not, and at once. Returns the
 * bytes given back. */
size_t gb_purge_due(uint32_t now, bool all);
/* Purges as much of what was freed at `since` or before as a request may wait for. False: there is no more. */
bool gb_purge_step(uint32_t since);
/* Locked: purges free runs and idle extents, those that have waited longest first, until `bytes` are given back or
 * nothing is left. Returns what was. */
size_t gb_purge_oldest(size_t bytes);
/* Milliseconds until something is due; UINT32_MAX if nothing waits. */
uint32_t gb_purge_wait(uint32_t now);

/* ---- pressure: the program's callback ---- */
/* Calls it; false: there is none, or this thread is in it. Owner of no lock. */
bool gb_pressure_tell(uint64_t used, uint64_t limit);

/* ---- retain: what freed memory is kept, and when it goes back ---- */
/* Called by every slow allocation. Every few calls it looks at the clock, and gives some memory back. Owner. */
void gb_tick(glebe_heap *heap);
GB_NOINLINE void gb_tick_due(glebe_heap *heap);
/* Gives back what can be given back, so that a request may be tried again; false if nothing changed. Owner. */
bool gb_make_room(glebe_heap *heap);
/* All that this heap and abandoned ones keep goes back, and all that is free. Returns the bytes given back to the
 * system. Owner. */
size_t gb_retain_nothing(glebe_heap *heap);
/* Purges what is kept beyond the bounds. */
GB_NOINLINE void gb_retain_act(void);
GB_INLINE void gb_retain_bound(void)
{
    if (GB_PURGES && GB_UNLIKELY(gb_load_relaxed(&gb_the.kept.over)))
        gb_retain_act();
}
/* A collection ended. */
void gb_retain_collected(void);
/* The background thread, if it is wanted and does not run. */
void gb_background_start(void);
/* Locked: something waits to be given back where nothing did. */
void gb_background_nudge(void);
/* In fork's child: starts again with the next tick. */
void gb_background_forked(void);

#pragma GCC visibility pop

#endif
