/* The first word of a free block in a thread free list overwritten, before the heap flushes its lists: the secure build
 * has its link there.
 *
 * default, audit: served
 * secure: glebe: malloc(ADDRESS): free block of 64 bytes was written to after it was freed, or its neighbour
 *     overflowed */
#include "abuse.h"

int main(void)
{
    static uintptr_t target[8];
    uintptr_t *blocks[300];
    for (int i = 0; i < 300; i++)
        blocks[i] = malloc(SMALL);
    for (int i = 0; i < 200; i++)
        free(blocks[i]);
    int ready = -1;
    while (ready < 0) { /* taking the first one back takes the others too */
        void *block = malloc(SMALL);
        for (int i = 0; i < 200; i++)
            if (block == blocks[i])
                ready = i < 100 ? i + 50 : i - 50;
    }
    uintptr_t *victim = wrong(blocks[ready]);
    victim[0] = (uintptr_t)target;
    malloc_trim(0);
    return abuse_end();
}
