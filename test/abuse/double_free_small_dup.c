/* Frees in the order a, b, a: the free list would hold a twice, and malloc would return it twice.
 *
 * all: glebe: free(ADDRESS): double free: the block of 64 bytes here is free already */
#include "abuse.h"

int main(void)
{
    void *a = wrong(malloc(SMALL)), *b = malloc(SMALL);
    free(a);
    free(b);
    free(a);
    return abuse_end();
}
