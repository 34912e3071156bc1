/* A block written a word past its end, into the free block behind it: the default build's links are in the second word,
 * where a word does not reach.
 *
 * default, audit: served
 * secure: glebe: malloc(ADDRESS): free block of 64 bytes was written to after it was freed, or its neighbour
 *     overflowed */
#define PAST sizeof(void *)
#include "overflow.h"
