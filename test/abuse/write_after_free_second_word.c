/* The second word of a free block overwritten.
 *
 * default, audit: faults
 * secure: glebe: malloc(ADDRESS): free block of 64 bytes was written to after it was freed, or its neighbour
 *     overflowed */
#include "abuse.h"

int main(void)
{
    uintptr_t *blocks[300];
    for (int i = 0; i < 300; i++)
        blocks[i] = malloc(SMALL);
    for (int i = 0; i < 300; i++) /* a page is reused only when a good part of it is free */
        free(i == 7 ? wrong(blocks[7]) : blocks[i]);
    __asm__("" : "+r"(blocks[7]));
    blocks[7][1] = 0x4141414141414141;
    for (int i = 0; i < 1000; i++)
        if (!malloc(SMALL))
            return 2;
    return abuse_end();
}
