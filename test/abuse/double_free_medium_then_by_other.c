/* A medium block freed by its own thread, then by another.
 *
 * default: undetected
 * secure, audit: glebe: free(ADDRESS): double free: the block of 6144 bytes here is free already */
#include "abuse.h"

int main(void)
{
    free(malloc(1000000)); /* a heap that reaches a new peak flushes its lists, and finds the mistake */
    on_thread(free_it, malloc(MEDIUM)); /* what a thread takes is there */
    void *block = wrong(malloc(MEDIUM)), *other = malloc(MEDIUM);
    free(block);
    on_thread(free_it, block);
    /* The block that was freed last: sent home when its thread ends, as main's does on Windows, it would tell. */
    wrong(malloc(MEDIUM));
    free(other);
    return abuse_end();
}
