/* realloc of an address inside a large block.
 *
 * default, audit: glebe: realloc(ADDRESS): address is 32768 bytes inside a block of 114688 bytes that starts at
 *     START
 * secure: glebe: realloc(ADDRESS): address is inside a block of over 64 KiB, or between two */
#include "abuse.h"

int main(void)
{
    void *block = malloc(LARGE);
    if (realloc(inside(block, 32768), 200) || errno != EINVAL)
        return 2;
    free(block);
    return abuse_end();
}
