/* What looks at heaps and changes nothing: statistics, glebe_check. */
#ifndef GB_DEBUG_H
#define GB_DEBUG_H

#include "../gc/gc.h"

#pragma GCC visibility push(hidden)

/* ---- stats ---- */
/* Bytes of all blocks in use but huge ones, as far as this thread can tell: free blocks that other threads' heaps
 * keep at hand, or have not sent home yet, count as in use. Takes a look at every page. */
size_t gb_blocks_bytes(void);

#pragma GCC visibility pop

#endif
