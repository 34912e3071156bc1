/* free_sized of a medium block that is free.
 *
 * default, audit: glebe: free_sized(ADDRESS): double free: the block of 6144 bytes here is free already
 * secure: glebe: free_sized(ADDRESS): double free: the block of 6000 bytes here is free already */
#include "abuse.h"

int main(void)
{
    void *block = wrong(malloc(MEDIUM)), *other = malloc(MEDIUM);
    free_sized(block, MEDIUM);
    free_sized(block, MEDIUM);
    free(other);
    return abuse_end();
}
