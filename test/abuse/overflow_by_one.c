/* A block written one byte past its end, into a neighbour in use: the neighbour's bytes change, but no data of glebe's,
 * which has none between blocks.
 *
 * default, audit: served
 * secure: glebe: free(ADDRESS): the block of 24 bytes here was written past its end, or from the block behind it */
#include "abuse.h"

int main(void)
{
    enum { BLOCKS = 1000 };
    char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) /* many, so that no neighbour is free */
        blocks[i] = malloc(24);
    char *block = blocks[BLOCKS / 2];
    size_t bytes = malloc_usable_size(block);
    block = wrong(block);
    memset(block, 0, bytes + 1);
    for (int i = 0; i < BLOCKS; i++)
        if (malloc_usable_size(blocks[i]) != bytes)
            return 2;
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    if (glebe_check(NULL, 2, abuse_broken, NULL) != 0)
        return 2;
    return abuse_end();
}
