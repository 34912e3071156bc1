/* A large block freed after its heap was destroyed.
 *
 * all: glebe: free(ADDRESS): address is in free memory: freed already, or never given out */
#include "abuse.h"

int main(void)
{
    glebe_heap *heap = glebe_heap_create(0);
    void *block = glebe_heap_malloc(heap, LARGE);
    glebe_heap_destroy(heap);
    free(wrong(block));
    return abuse_end();
}
