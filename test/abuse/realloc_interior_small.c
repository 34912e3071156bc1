/* realloc of an address inside a small block.
 *
 * all: glebe: realloc(ADDRESS): address is 16 bytes inside a block of 64 bytes that starts at START */
#include "abuse.h"

int main(void)
{
    void *block = malloc(SMALL);
    if (realloc(inside(block, 16), 200) || errno != EINVAL)
        return 2;
    free(block);
    return abuse_end();
}
