/* A medium block freed by its own thread, then by another.
 *
 * options: purge_ms=3600000
 * default: undetected
 * secure, audit: glebe: free(ADDRESS): double free: the block of 6144 bytes here is free already */
#include "abuse.h"

int main(void)
{
    on_thread(free_it, malloc(MEDIUM)); /* what a thread takes is there: a heap that grows sends blocks home, and the mistake is found */
    void *block = wrong(malloc(MEDIUM)), *other = malloc(MEDIUM);
    free(block);
    on_thread(free_it, block);
    free(other);
    return abuse_end();
}
