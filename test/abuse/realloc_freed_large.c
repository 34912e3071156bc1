/* realloc of a large block that is free.
 *
 * default: glebe: realloc(ADDRESS): the block of 114688 bytes here is free already
 * secure: glebe: realloc(ADDRESS): the block of over 64 KiB here is free already
 * audit: glebe: realloc(ADDRESS): address is in free memory: freed already, or never given out */
#include "abuse.h"

int main(void)
{
    void *block = wrong(malloc(LARGE));
    free(block);
    if (realloc(block, 2 * LARGE) || errno != EINVAL)
        return 2;
    return abuse_end();
}
