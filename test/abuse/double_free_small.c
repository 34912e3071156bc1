/* A small block freed twice by its own thread.
 *
 * all: glebe: free(ADDRESS): double free: the block of 64 bytes here is free already */
#include "abuse.h"

int main(void)
{
    void *block = malloc(SMALL);
    free(wrong(block));
    free(block);
    return abuse_end();
}
