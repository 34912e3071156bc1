/* The link of a block that another thread freed, overwritten before the owner takes the block back.
 *
 * default, audit: faults
 * secure: glebe: malloc(ADDRESS): free block of 64 bytes was written to after it was freed, or its neighbour
 *     overflowed */
#include "abuse.h"

static void *free_more(void *blocks)
{
    for (int i = 0; i < 100; i++)
        free(((void **)blocks)[i]);
    return NULL;
}

int main(void)
{
    static uintptr_t target[8];
    uintptr_t *blocks[300];
    for (int i = 0; i < 300; i++)
        blocks[i] = malloc(SMALL);
    int ready = 150;
    for (int i = 0; i < 100; i++)
        free(blocks[i]);
    on_thread(free_more, blocks + 100);
    uintptr_t *victim = wrong(blocks[ready]);
    victim[0] = victim[1] = (uintptr_t)target;
    malloc_trim(0);
    return abuse_end();
}
