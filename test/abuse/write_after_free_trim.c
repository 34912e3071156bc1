/* The link of a free block overwritten in a page with room, which glebe_trim then walks.
 *
 * default, audit: faults
 * secure: glebe: malloc(ADDRESS): free block of 64 bytes was written to after it was freed, or its neighbour
 *     overflowed */
#include "abuse.h"

int main(void)
{
    static uintptr_t target[8];
    uintptr_t *blocks[300];
    for (int i = 0; i < 300; i++)
        blocks[i] = malloc(SMALL);
    int ready = 50;
    for (int i = 0; i < 240; i++)
        if (i % 64 != 1) /* a page that is empty is not walked */
            free(blocks[i]);
    uintptr_t *victim = wrong(blocks[ready]);
    victim[0] = victim[1] = (uintptr_t)target;
    malloc_trim(0);
    return abuse_end();
}
