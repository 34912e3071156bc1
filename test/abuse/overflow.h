/* Writes a block, and PAST bytes behind it, where a free block is. */
#include "abuse.h"

int main(void)
{
    enum { BLOCKS = 256 };
    char *blocks[BLOCKS], *behind = NULL;
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = malloc(SMALL);
    char *block = blocks[BLOCKS / 2];
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i] == block + SMALL || blocks[i] == block + SMALL + 16) /* in the secure build a tail is between */
            behind = blocks[i];
    if (!behind)
        return 2;
    for (int i = 0; i < BLOCKS; i++) /* a page is reused only when a good part of it is free */
        if (blocks[i] != block)
            free(blocks[i]);
    block = wrong(block);
    memset(block, 'A', SMALL + PAST);
    for (int i = 0; i < 4 * BLOCKS; i++)
        if (!malloc(SMALL))
            return 2;
    free(block);
    return abuse_end();
}
#undef PAST /* one program for Windows includes all */
