/* Code that looks at heaps and changes nothing: statistics, glebe_check. */
#ifndef GB_DEBUG_H
#define GB_DEBUG_H

#include "../gc/gc.h"

#pragma GCC visibility push(hidden)

/* ---- stats ---- */
/* Returns the bytes of all blocks in use except huge ones, as far as this thread can tell: free blocks on thread free
 * lists of other threads, and remote frees that were not sent yet, count as in use. Looks at every page. */
size_t gb_blocks_bytes(void);

/* stats.c: print the line of GLEBE_VERBOSE, and the output of GLEBE_STATS, at exit. */
void gb_verbose_say(void);
void gb_stats_say(void);

/* ---- shape: the layout of this build, for readers outside the process; not in linear memory ---- */
const void *gb_shape_address(void);

/* profile.c: the profile that GLEBE_PROFILE names, at the start and at exit. */
void gb_profile_begin(void);
void gb_profile_end(void);

#pragma GCC visibility pop

#endif
