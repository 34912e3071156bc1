/* Several threads make, fill, delete and destroy thousands of heaps; glebe_check runs at the end. Line 3: threads
 * allocate in each other's heaps at once. Line 2: threads leave heaps behind when they end. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>

#include "../../include/glebe.h"
#include "mi.h"

enum { THREADS = 4, ROUNDS = 1500, BLOCKS = 12, SHARED = 30000 };
static mi_heap_t *shared_heaps[3];

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    _exit(1);
}

static uint32_t next(uint32_t *seed) { return (*seed = *seed * 1664525 + 1013904223) >> 8; }

static size_t any_size(uint32_t *seed)
{
    uint32_t r = next(seed);
    return r % 97 == 0 ? 70000 + r % 300000 : r % 7 == 0 ? 3000 + r % 30000 : r % 700;
}

/* Blocks of deleted heaps are freed rounds later, some by another thread. */
static void *makes(void *number)
{
    uint32_t seed = (uint32_t)(uintptr_t)number + 1;
    enum { WAIT = 64 };
    char *waits[WAIT] = {0};
    size_t bytes[WAIT] = {0};
    for (int round = 0; round < ROUNDS; round++) {
        mi_heap_t *heap = mi_heap_new();
        if (!heap)
            fail("no heap");
        bool deletes = next(&seed) % 2;
        for (int i = 0; i < BLOCKS; i++) {
            size_t n = any_size(&seed) + 8;
            char *p = i % 3 == 0 ? mi_heap_malloc_aligned_at(heap, n, 64, 8)
                : i % 3 == 1 ? mi_heap_zalloc(heap, n)
                : mi_heap_malloc(heap, n);
            if (!p)
                fail("no block");
            memset(p, (int)(n & 0xff), n);
            uint32_t at = next(&seed) % WAIT;
            if (!deletes)
                continue;
            if (waits[at]) {
                for (size_t b = 0; b < bytes[at]; b += bytes[at] / 3 + 1)
                    if ((unsigned char)waits[at][b] != (bytes[at] & 0xff))
                        fail("a block of a deleted heap was written over");
                mi_free(waits[at]);
            }
            waits[at] = p;
            bytes[at] = n;
        }
        if (deletes)
            mi_heap_delete(heap);
        else
            mi_heap_destroy(heap);
    }
    for (int i = 0; i < WAIT; i++)
        mi_free(waits[i]);
    return NULL;
}

static void *shares(void *number)
{
    uint32_t seed = (uint32_t)(uintptr_t)number + 77;
    char *mine[40] = {0};
    for (int i = 0; i < SHARED; i++) {
        char **p = &mine[next(&seed) % 40];
        mi_heap_t *heap = shared_heaps[next(&seed) % 3];
        if (*p && (*p)[3] != (char)(uintptr_t)number)
            fail("a block of a shared heap was given out twice");
        if (*p && i % 3)
            mi_free(*p), *p = NULL;
        else {
            *p = mi_heap_realloc(heap, *p, any_size(&seed) + 8);
            memset(*p, (int)(uintptr_t)number, 8);
        }
    }
    return NULL;
}

#if LINE == 2
static char *left[THREADS];
static pthread_key_t key;

/* A destructor of the program: the heap is still the thread's own. */
static void uses(void *heap)
{
    static _Thread_local int round;
    mi_free(mi_heap_malloc(heap, 1000));
    if (++round < 3)
        pthread_setspecific(key, heap);
}

/* When the thread ends, one heap is empty, one has a block that lives on, and one was destroyed. */
static void *leaves(void *number)
{
    mi_heap_t *heap = mi_heap_new(), *empty = mi_heap_new(), *ended = mi_heap_new();
    if (!heap || !empty || !ended || pthread_setspecific(key, heap) != 0)
        fail("no heap");
    mi_free(mi_heap_malloc(empty, 100));
    mi_heap_destroy(ended);
    mi_heap_set_default(heap);
    char **mine = &left[(uintptr_t)number];
    if (*mine && strcmp(*mine, "left") != 0)
        fail("a block of a thread that ended was written over");
    mi_free(*mine);
    *mine = mi_strdup("left");
    return NULL;
}
#endif

static void run(void *(*function)(void *))
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, function, (void *)i) != 0)
            fail("no thread");
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void complain(void *context, int invariant, const void *address, const char *what)
{
    (void)context;
    fprintf(stderr, "invariant %d, %p: %s\n", invariant, address, what);
}

int main(void)
{
    run(makes);
    if (LINE == 3) {
        for (int i = 0; i < 3; i++)
            shared_heaps[i] = mi_heap_new();
        run(shares);
        pid_t child = fork();
        if (child == 0) { /* no lock is held, and new heaps work */
            mi_heap_t *heap = mi_heap_new();
            _exit(heap && mi_heap_malloc(heap, 100) ? 0 : 1);
        }
        int status;
        if (waitpid(child, &status, 0) != child || status != 0)
            fail("the child has no heap");
        for (int i = 0; i < 3; i++)
            mi_heap_destroy(shared_heaps[i]);
    }
#if LINE == 2
    pthread_key_create(&key, uses);
    for (int i = 0; i < 100; i++)
        run(leaves);
#endif
    mi_collect(true);
    mi_heap_delete(mi_heap_new());
    glebe_stats stats;
    glebe_stats_read(&stats);
    int broken = glebe_check(NULL, 2, complain, NULL);
    printf("%d %llu %llu\n", broken, (unsigned long long)stats.heaps, (unsigned long long)stats.used_bytes);
    return broken != 0;
}
