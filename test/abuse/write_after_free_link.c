/* The link of a free block overwritten with an address of the program's choice (free list poisoning): it decodes to no
 * address that a program can have.
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
    for (int i = 0; i < 300; i++) /* a page is reused only when a good part of it is free */
        free(i == 7 ? wrong(blocks[7]) : blocks[i]);
    __asm__("" : "+r"(blocks[7]));
    blocks[7][0] = blocks[7][1] = (uintptr_t)target;
    for (int i = 0; i < 1000; i++)
        if ((uintptr_t *)malloc(SMALL) == target)
            abuse_say("the target was given out\n");
    return abuse_end();
}
