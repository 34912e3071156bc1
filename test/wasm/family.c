/* The malloc family in a module: every function by its C library's name, blocks of all sizes with a pattern that must
 * last, checks of the heap in between, exhausted memory that serves again, and other code that grows memory. Prints
 * "ok" and exits with 0. */
#include <errno.h>
#include <glebe.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../check.h"

void *reallocarray(void *, size_t, size_t);
void *memalign(size_t, size_t);
size_t malloc_usable_size(void *);

enum { BLOCKS = 600, STEPS = 60000 };
static struct {
    unsigned char *at;
    size_t bytes;
} blocks[BLOCKS];
static uint32_t chance = 1;

static uint32_t below(uint32_t n)
{
    chance = chance * 1664525 + 1013904223;
    return (chance >> 8) % n;
}

static void broken(void *context, int invariant, const void *address, const char *what)
{
    (void)context;
    printf("invariant %d at %p: %s\n", invariant, address, what);
}

static void well(void)
{
    CHECK(glebe_check(NULL, 2, broken, NULL) == 0);
}

static size_t some_bytes(void)
{
    switch (below(20)) {
    case 0: return 16000 + below(200000);
    case 1: return 2000 + below(16000);
    case 2: return below(3);
    default: return 1 + below(600);
    }
}

static void mark(int i, void *at, size_t bytes)
{
    CHECK(at && (uintptr_t)at % 16 == 0);
    blocks[i].at = at;
    blocks[i].bytes = bytes;
    memset(at, i % 251 + 1, bytes);
}

static void look(int i, size_t bytes)
{
    for (size_t k = 0; k < bytes; k += k < 32 || k + 32 > bytes ? 1 : 97)
        CHECK(blocks[i].at[k] == i % 251 + 1);
}

static void step(void)
{
    int i = (int)below(BLOCKS);
    size_t bytes = some_bytes();
    if (!blocks[i].at) {
        void *p;
        switch (below(4)) {
        case 0:
            p = calloc(1, bytes);
            for (size_t k = 0; k < bytes; k++)
                CHECK(((char *)p)[k] == 0);
            break;
        case 1:
            p = aligned_alloc((size_t)16 << below(10), bytes);
            break;
        default: p = malloc(bytes);
        }
        mark(i, p, bytes);
    } else if (below(4) == 0) {
        blocks[i].at = realloc(blocks[i].at, bytes ? bytes : 1);
        look(i, bytes < blocks[i].bytes ? bytes : blocks[i].bytes);
        mark(i, blocks[i].at, bytes ? bytes : 1);
    } else {
        look(i, blocks[i].bytes);
        free(blocks[i].at);
        blocks[i].at = NULL;
    }
}

static void test_names(void)
{
    void *p = NULL;
    CHECK(posix_memalign(&p, 4096, 10) == 0 && (uintptr_t)p % 4096 == 0);
    free(p);
    CHECK(posix_memalign(&p, 3, 10) == EINVAL);
    p = memalign(64, 100);
    CHECK((uintptr_t)p % 64 == 0 && malloc_usable_size(p) >= 100);
    p = reallocarray(p, 10, 100);
    CHECK(p && malloc_usable_size(p) >= 1000);
    free(p);
    char *copy = strdup("a string");
    CHECK(strcmp(copy, "a string") == 0 && glebe_usable_size(copy) >= 9); /* it went through malloc */
    free(copy);
    free(NULL);
    CHECK(malloc(PTRDIFF_MAX) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(calloc(SIZE_MAX / 2, 4) == NULL && errno == ENOMEM);
}

static void test_heaps(void)
{
    glebe_heap *heap = glebe_heap_create(100000);
    size_t n = 0;
    while (glebe_heap_malloc(heap, 500))
        n++;
    CHECK(n > 150 && glebe_heap_bytes(heap) <= 100000);
    well();
    void *other = malloc(500);
    CHECK(other);
    free(other);
    glebe_heap_destroy(heap);
    well();
}

/* The linker sets the maximum of memory. glebe hands out all of it to the last page, and again after it is freed. */
static void test_end(void)
{
    enum { MOST = 4096 };
    static void *taken[MOST];
    for (int round = 0; round < 3; round++) {
        int n = 0;
        while (n < MOST && (taken[n] = malloc(10000)) != NULL)
            n++;
        CHECK(n < MOST && errno == ENOMEM);
        CHECK(round == 0 || (size_t)n * 10240 > __builtin_wasm_memory_size(0) * 65536 / 8 * 7);
        well();
        while (n > 0)
            free(taken[--n]);
        /* the other code's pages, and the table, are in between */
        void *much = malloc(__builtin_wasm_memory_size(0) * 65536 / 4);
        CHECK(much);
        free(much);
    }
}

int main(void)
{
    test_names();
    for (int i = 0; i < STEPS; i++) {
        step();
        if (i % 1000 == 0)
            well();
        if (i % 5000 == 0) /* other code takes a page */
            CHECK(__builtin_wasm_memory_grow(0, 1) != SIZE_MAX);
    }
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i].at);
    test_heaps();
    test_end();
    glebe_trim(NULL);
    well();
    glebe_stats stats;
    glebe_stats_read(&stats);
    CHECK(stats.pages_taken == stats.pages_returned + stats.used_bytes / 4096 || stats.used_bytes > 0);
    puts("ok");
    return 0;
}
