/* A block of no bytes freed twice, with others between.
 *
 * all: glebe: free(ADDRESS): double free: the block of 0 bytes here is free already */
#include "abuse.h"

int main(void)
{
    void *block = wrong(malloc(0));
    free(block);
    for (int i = 0; i < 10; i++)
        free(malloc(0));
    free(block);
    return abuse_end();
}
