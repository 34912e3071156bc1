/* malloc_usable_size of a small block that is free.
 *
 * all: glebe: malloc_usable_size(ADDRESS): the block of 64 bytes here is free already */
#include "abuse.h"

int main(void)
{
    void *block = wrong(malloc(SMALL));
    free(block);
    malloc_usable_size(block);
    return abuse_end();
}
