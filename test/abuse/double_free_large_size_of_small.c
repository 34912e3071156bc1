/* The largest small block, 2 KiB, freed twice.
 *
 * all: glebe: free(ADDRESS): double free: the block of 2048 bytes here is free already */
#include "abuse.h"

int main(void)
{
    void *block = wrong(malloc(2048));
    free(block);
    free(block);
    return abuse_end();
}
