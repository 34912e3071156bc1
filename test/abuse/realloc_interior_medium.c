/* realloc of an address inside a medium block.
 *
 * default, audit: glebe: realloc(ADDRESS): address is 16 bytes inside a block of 6144 bytes that starts at START
 * secure: glebe: realloc(ADDRESS): address is 16 bytes inside a block of 6000 bytes that starts at START */
#include "abuse.h"

int main(void)
{
    void *block = malloc(MEDIUM);
    if (realloc(inside(block, 16), 200) || errno != EINVAL)
        return 2;
    free(block);
    return abuse_end();
}
