/* A heap destroyed twice.
 *
 * all: glebe: glebe_heap_destroy(ADDRESS): not a heap from glebe_heap_create, or destroyed already */
#include "abuse.h"

int main(void)
{
    glebe_heap *heap = glebe_heap_create(0);
    if (!glebe_heap_malloc(heap, SMALL))
        return 2;
    glebe_heap_destroy(wrong(heap));
    glebe_heap_destroy(heap);
    return abuse_end();
}
