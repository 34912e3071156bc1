/* A medium block freed by its own thread, then by another.
 *
 * default: undetected
 * secure: glebe: free(ADDRESS): double free: the block of 6000 bytes here is free already
 * audit: glebe: free(ADDRESS): double free: the block of 6144 bytes here is free already */
#include "abuse.h"

int main(void)
{
    free(malloc(1000000)); /* reach the peak first: a heap at a new peak flushes its lists, and finds the mistake */
    on_thread(free_it, malloc(MEDIUM)); /* the memory that a thread takes is there */
    void *block = wrong(malloc(MEDIUM)), *other = malloc(MEDIUM);
    free(block);
    on_thread(free_it, block);
    /* Free another block last: if main's thread ends, as on Windows, it flushes its last freed block, and would find
     * the mistake. */
    wrong(malloc(MEDIUM));
    free(other);
    return abuse_end();
}
