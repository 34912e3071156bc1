/* malloc_usable_size of a medium block that is free: 0.
 *
 * default, audit: glebe: malloc_usable_size(ADDRESS): the block of 6144 bytes here is free already
 * secure: glebe: malloc_usable_size(ADDRESS): the block of 6000 bytes here is free already */
#include "abuse.h"

int main(void)
{
    void *block = wrong(malloc(MEDIUM)), *other = malloc(MEDIUM);
    free(block);
    if (malloc_usable_size(block) != 0)
        return 2;
    free(other);
    return abuse_end();
}
