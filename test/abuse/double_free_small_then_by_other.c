/* A small block freed by its own thread, then by another.
 *
 * default: undetected
 * secure, audit: glebe: free(ADDRESS): double free: the block of 64 bytes here is free already */
#include "abuse.h"

int main(void)
{
    void *block = wrong(malloc(SMALL));
    free(block);
    on_thread(free_it, block);
    return abuse_end();
}
