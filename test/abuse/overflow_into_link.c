/* A block written past its end, into the link of the free block behind it.
 *
 * default, audit: faults
 * secure: glebe: free(ADDRESS): the block of 72 bytes here was written past its end, or from the block behind it */
#define PAST 16
#include "overflow.h"
