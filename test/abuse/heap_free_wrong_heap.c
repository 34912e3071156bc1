/* A block passed to glebe_heap_free with the wrong heap: it is freed to its own heap.
 *
 * all: served */
#include "abuse.h"

int main(void)
{
    glebe_heap *one = glebe_heap_create(0), *two = glebe_heap_create(0);
    for (int i = 0; i < 1000; i++) {
        glebe_heap_free(two, glebe_heap_malloc(one, SMALL));
        glebe_heap_free(two, glebe_heap_malloc(one, MEDIUM));
        glebe_heap_free(two, glebe_heap_malloc(one, LARGE));
        glebe_heap_free(two, glebe_heap_malloc(one, HUGE_));
    }
    if (glebe_check(NULL, 2, abuse_broken, NULL) != 0)
        return 2;
    glebe_heap_destroy(one);
    glebe_heap_destroy(two);
    return abuse_end();
}
