/* The floor: malloc moves a pointer, free does nothing, realloc works in place for the newest block. No allocator takes
 * fewer instructions, so its gain over glibc is about the maximum for any; its memory is the sum of all requests. The
 * size is stored before each block, since realloc must know how much to copy. One thread. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define RESERVED ((size_t)8 << 30) /* more than a run takes, and less than valgrind refuses */

static char *top, *newest;

static void *bump(size_t align, size_t n)
{
    if (!top) {
        top = mmap(NULL, RESERVED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (top == MAP_FAILED)
            __builtin_trap();
#ifdef HUGE_PAGES
        madvise(top, RESERVED, MADV_HUGEPAGE);
#endif
    }
    newest = (char *)(((uintptr_t)top + 16 + align - 1) & -align);
    ((size_t *)newest)[-1] = n;
    top = newest + ((n + 15) & ~(size_t)15);
    return newest;
}

void *malloc(size_t n) { return bump(16, n); }
void free(void *p) { (void)p; }
void *calloc(size_t count, size_t n) { return bump(16, count * n); } /* fresh pages are zero */
void *memalign(size_t align, size_t n) { return bump(align < 16 ? 16 : align, n); }
void *aligned_alloc(size_t align, size_t n) { return memalign(align, n); }
int posix_memalign(void **p, size_t align, size_t n) { return *p = memalign(align, n), 0; }
size_t malloc_usable_size(void *p) { return p ? ((size_t *)p)[-1] : 0; }

void *realloc(void *p, size_t n)
{
    size_t old = malloc_usable_size(p);
    if (p && (n <= old || p == newest)) {
        if (p == newest)
            top = newest + ((n + 15) & ~(size_t)15);
        ((size_t *)p)[-1] = n;
        return p;
    }
    void *q = malloc(n);
    return p ? memcpy(q, p, old) : q;
}
