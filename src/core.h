/* All that the layers offer, for code above them. src/README.md has the map. "Owner" at a function means the one
 * thread that may use the heap now; "locked" means under the region's lock. */
#ifndef GB_CORE_H
#define GB_CORE_H

#include "debug/debug.h"
#include "serve/alloc.h"

#endif
