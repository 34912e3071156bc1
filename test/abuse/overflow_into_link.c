/* A block written past its end, into the link of the free block behind it.
 *
 * default, audit: faults
 * secure: glebe: malloc(ADDRESS): free block of 64 bytes was written to after it was freed, or its neighbour
 *     overflowed */
#define PAST 16
#include "overflow.h"
