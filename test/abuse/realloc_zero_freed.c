/* realloc(p, 0) of a free block: it is a free, so this is a double free.
 *
 * default, audit: glebe: realloc(ADDRESS): the block of 6144 bytes here is free already
 * secure: glebe: realloc(ADDRESS): the block of 6000 bytes here is free already */
#include "abuse.h"

int main(void)
{
    void *block = wrong(malloc(MEDIUM)), *other = malloc(MEDIUM);
    free(block);
    if (realloc(block, 0))
        return 2;
    free(other);
    return abuse_end();
}
