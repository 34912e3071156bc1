/* malloc_usable_size of an address inside a block: 0.
 *
 * all: glebe: malloc_usable_size(ADDRESS): address is 8 bytes inside a block of 64 bytes that starts at START */
#include "abuse.h"

int main(void)
{
    void *block = malloc(SMALL);
    if (malloc_usable_size(inside(block, 8)) != 0)
        return 2;
    free(block);
    return abuse_end();
}
