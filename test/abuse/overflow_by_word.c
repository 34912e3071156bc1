/* A block written a word past its end, into the free block behind it: the default build's links are in the second word,
 * where a word does not reach.
 *
 * default, audit: served
 * secure: glebe: free(ADDRESS): the block of 64 bytes here was written past its end, or from the block behind it */
#define PAST sizeof(void *)
#include "overflow.h"
