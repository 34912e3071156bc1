/* The last byte of a free block overwritten, far behind its link.
 *
 * default, audit: undetected
 * secure: glebe: malloc(ADDRESS): free block of 512 bytes was written to after it was freed, or its neighbour
 *     overflowed */
#include "abuse.h"

int main(void)
{
    enum { BYTES = 512 };
    char *blocks[300];
    for (int i = 0; i < 300; i++)
        blocks[i] = malloc(BYTES);
    for (int i = 0; i < 300; i++) /* a page is reused only when a good part of it is free */
        free(i == 7 ? wrong(blocks[7]) : blocks[i]);
    __asm__("" : "+r"(blocks[7]));
    blocks[7][BYTES - 1] = 1;
    for (int i = 0; i < 1000; i++)
        if (!malloc(BYTES))
            abuse_say("no memory\n");
    return abuse_end();
}
