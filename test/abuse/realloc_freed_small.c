/* realloc of a small block that is free. It returns NULL and sets EINVAL.
 *
 * all: glebe: realloc(ADDRESS): the block of 64 bytes here is free already */
#include "abuse.h"

int main(void)
{
    void *block = wrong(malloc(SMALL)), *other = malloc(SMALL);
    free(block);
    void *moved = realloc(block, 200);
    if (!moved)
        free(other);
    return abuse_end();
}
