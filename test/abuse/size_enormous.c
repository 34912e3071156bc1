/* Sizes that no machine has, in every function: NULL and ENOMEM, no report, no wrapped arithmetic, and the block passed
 * to realloc stays as it was.
 *
 * all: served */
#include "abuse.h"

#define REFUSED(call) \
    do { \
        errno = 0; \
        if ((call) || errno != ENOMEM) { \
            abuse_say("%s, %zu: was served, or errno is %d\n", #call, (size_t)n, errno); \
            return 2; \
        } \
    } while (0)

int main(void)
{
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 15, SIZE_MAX - 4095, SIZE_MAX - 65535,
        SIZE_MAX / 2 + 1, SIZE_MAX / 2, SIZE_MAX / 2 - 4095, SIZE_MAX / 4, (size_t)1 << (sizeof(size_t) * 8 - 3),
        (size_t)1 << (sizeof(size_t) * 7)};
    enum { SIZES = sizeof sizes / sizeof sizes[0] };
    void *kept[4] = {malloc(SMALL), malloc(MEDIUM), malloc(LARGE), malloc(HUGE_)};
    glebe_heap *heap = glebe_heap_create(0);
    for (int k = 0; k < 4; k++)
        memset(kept[k], 'k', SMALL);
    for (int i = 0; i < SIZES; i++) {
        volatile size_t n = sizes[i];
        REFUSED(malloc(n));
        REFUSED(calloc(n, 1));
        REFUSED(calloc(1, n));
        for (size_t a = 8; a <= (size_t)1 << 30; a *= 2) {
            REFUSED(aligned_alloc(a, n));
            REFUSED(memalign(a, n));
            void *out = NULL;
            errno = 7;
            if (posix_memalign(&out, a, n) != ENOMEM || out || errno != 7)
                return 2;
        }
        REFUSED(valloc(n));
        REFUSED(pvalloc(n));
        REFUSED(realloc(NULL, n));
        REFUSED(glebe_heap_malloc(heap, n));
        REFUSED(glebe_heap_aligned_alloc(heap, 4096, n));
        for (int k = 0; k < 4; k++) {
            REFUSED(realloc(kept[k], n));
            REFUSED(reallocarray(kept[k], n, 1));
            REFUSED(glebe_heap_realloc(NULL, kept[k], n));
            if (((char *)kept[k])[0] != 'k' || ((char *)kept[k])[SMALL - 1] != 'k')
                return 3;
        }
    }
    for (size_t a = (size_t)1 << 31; a; a *= 2) { /* and alignments beyond any address space */
        void *block = aligned_alloc(a, 1);
        if (block && ((uintptr_t)block & (a - 1)) != 0)
            return 4;
        if (!block && errno != ENOMEM)
            return 5;
        free(block);
    }
    for (int k = 0; k < 4; k++)
        free(kept[k]);
    glebe_heap_destroy(heap);
    if (glebe_check(NULL, 2, abuse_broken, NULL) != 0)
        return 6;
    return abuse_end();
}
