/* An allocator without any check: the control of test_attack.py. A page for each size; free blocks are linked through
 * their first word; free finds the size by the page, and pushes whatever it is given. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4 << 20, PAGES = 64 };
typedef struct block {
    struct block *next;
} block;
typedef struct page {
    size_t size, bump;
    block *free;
} page;

static char *base;
static page pages[PAGES];
static size_t used;

void *malloc(size_t bytes)
{
    size_t size = (bytes ? bytes + 15 : 16) & ~(size_t)15, i = 0;
    if (!base)
        base = mmap(NULL, (size_t)PAGE * PAGES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
            0);
    while (i < used && pages[i].size != size)
        i++;
    if (i == PAGES || size > PAGE / 4)
        return NULL;
    if (i == used)
        pages[used++].size = size;
    block *b = pages[i].free;
    if (b)
        pages[i].free = b->next;
    else {
        b = (block *)(void *)(base + i * PAGE + pages[i].bump);
        pages[i].bump += size;
    }
    return b;
}

void free(void *address)
{
    size_t i = ((uintptr_t)address - (uintptr_t)base) / PAGE;
    if (!address || i >= PAGES)
        return;
    ((block *)address)->next = pages[i].free;
    pages[i].free = address;
}

size_t malloc_usable_size(void *address)
{
    size_t i = ((uintptr_t)address - (uintptr_t)base) / PAGE;
    return i < PAGES ? pages[i].size : 0;
}

void *calloc(size_t count, size_t bytes)
{
    void *b = malloc(count * bytes);
    return b ? memset(b, 0, count * bytes) : NULL;
}

void *realloc(void *old, size_t bytes)
{
    void *b = malloc(bytes);
    size_t before = old ? malloc_usable_size(old) : 0;
    if (b && old)
        memcpy(b, old, before < bytes ? before : bytes);
    return b;
}
