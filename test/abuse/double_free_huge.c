/* A huge block freed twice.
 *
 * default, audit: glebe: free(ADDRESS): double free: the block of over 256 KiB here is free already
 * secure: glebe: free(ADDRESS): double free: the block of over 64 KiB here is free already */
#include "abuse.h"

int main(void)
{
    void *block = wrong(malloc(HUGE_));
    free(block);
    free(block);
    return abuse_end();
}
