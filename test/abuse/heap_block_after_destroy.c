/* A large block freed after its heap was destroyed.
 *
 * default, audit: glebe: free(ADDRESS): address is in free memory: freed already, or never given out
 * secure: glebe: free(ADDRESS): double free: the block of over 64 KiB here is free already */
#include "abuse.h"

int main(void)
{
    glebe_heap *heap = glebe_heap_create(0);
    void *block = glebe_heap_malloc(heap, LARGE);
    glebe_heap_destroy(heap);
    free(wrong(block));
    return abuse_end();
}
