/* realloc of a medium block that is free. It returns NULL and sets EINVAL.
 *
 * default, audit: glebe: realloc(ADDRESS): the block of 6144 bytes here is free already
 * secure: glebe: realloc(ADDRESS): the block of 6000 bytes here is free already */
#include "abuse.h"

int main(void)
{
    void *block = wrong(malloc(MEDIUM)), *other = malloc(MEDIUM);
    free(block);
    void *moved = realloc(block, 200);
    if (!moved)
        free(other);
    return abuse_end();
}
