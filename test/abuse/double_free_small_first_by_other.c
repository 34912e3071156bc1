/* A small block freed by another thread, then by its own.
 *
 * all: glebe: free(ADDRESS): double free: the block of 64 bytes here is free already */
#include "abuse.h"

int main(void)
{
    void *block = wrong(malloc(SMALL));
    on_thread(free_it, block);
    free(block);
    return abuse_end();
}
