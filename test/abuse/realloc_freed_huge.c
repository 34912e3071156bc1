/* realloc of a huge block that is free.
 *
 * default, audit: glebe: realloc(ADDRESS): the block of over 256 KiB here is free already
 * secure: glebe: realloc(ADDRESS): the block of over 64 KiB here is free already */
#include "abuse.h"

int main(void)
{
    void *block = wrong(malloc(HUGE_));
    free(block);
    if (realloc(block, 2 * HUGE_) || errno != EINVAL)
        return 2;
    return abuse_end();
}
