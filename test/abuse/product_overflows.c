/* count * size beyond SIZE_MAX in calloc and reallocarray: NULL and ENOMEM, never a block of the wrapped size.
 *
 * all: served */
#include "abuse.h"

int main(void)
{
    static const size_t counts[][2] = {{SIZE_MAX / 2 + 1, 2}, {2, SIZE_MAX / 2 + 1}, {SIZE_MAX, SIZE_MAX},
        {(size_t)1 << (sizeof(size_t) * 4), (size_t)1 << (sizeof(size_t) * 4)}, {SIZE_MAX / 16 + 2, 16}};
    char *block = malloc(SMALL);
    memset(block, 'k', SMALL);
    glebe_heap *heap = glebe_heap_create(0);
    for (int i = 0; i < 5; i++) {
        volatile size_t a = counts[i][0], b = counts[i][1];
        errno = 0;
        if (calloc(a, b) || errno != ENOMEM)
            return 2;
        errno = 0;
        if (glebe_heap_calloc(heap, a, b) || errno != ENOMEM)
            return 3;
        errno = 0;
        if (reallocarray(block, a, b) || errno != ENOMEM || block[0] != 'k' || block[SMALL - 1] != 'k')
            return 4;
    }
    free(block);
    glebe_heap_destroy(heap);
    return abuse_end();
}
