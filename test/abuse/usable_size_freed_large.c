/* malloc_usable_size of a large block that is free: 0.
 *
 * default: glebe: malloc_usable_size(ADDRESS): the block of 114688 bytes here is free already
 * secure: glebe: malloc_usable_size(ADDRESS): the block of over 64 KiB here is free already
 * audit: glebe: malloc_usable_size(ADDRESS): address is in free memory: freed already, or never given out */
#include "abuse.h"

int main(void)
{
    void *block = wrong(malloc(LARGE));
    free(block);
    if (malloc_usable_size(block) != 0)
        return 2;
    return abuse_end();
}
