/* A small block freed twice, with other frees between, so that a check of only the last block would miss it.
 *
 * all: glebe: free(ADDRESS): double free: the block of 64 bytes here is free already */
#include "abuse.h"

int main(void)
{
    void *blocks[100];
    for (int i = 0; i < 100; i++)
        blocks[i] = malloc(SMALL);
    for (int i = 0; i < 99; i++)
        free(i == 50 ? wrong(blocks[i]) : blocks[i]);
    free(blocks[50]);
    return abuse_end();
}
