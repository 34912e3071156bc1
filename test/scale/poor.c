/* A malloc that misses every gate: the control for the cases. It retains all freed memory, and gives each large block
 * its own mapping and memory, in address space that it reserves at first, and each thread memory that it does not use.
 * It loses bytes, gets slower with the number of blocks, and refuses requests.
 *
 * POOR=refuse: it refuses every seventh request, and so cannot exceed a limit; else every 1009th. calloc, which the C
 * library itself uses, is the C library's own. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

extern void *__libc_malloc(size_t bytes);

enum { LARGE = 1 << 15, PAGE = 4096, TOUCHED = 8 * PAGE, TIMES = 4, RECENT = 64, OF_THREAD = 16 * PAGE };
static const size_t reserved = (size_t)6 << 40;

static atomic_size_t calls, live;
static _Atomic(char *) recent[RECENT];
static atomic_uintptr_t next;
static _Atomic int64_t spun;

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void spin(int64_t ns)
{
    for (int64_t end = now_ns() + ns; now_ns() < end;)
        continue;
}

__attribute__((constructor)) static void reserve(void)
{
    void *at = mmap(NULL, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at != MAP_FAILED)
        atomic_store(&next, (uintptr_t)at);
}

static char *large(size_t alignment, size_t bytes)
{
    size_t whole = ((bytes + PAGE - 1) & ~(size_t)(PAGE - 1)) + PAGE + (alignment > PAGE ? alignment : 0);
    char *at = (char *)atomic_fetch_add(&next, whole) + PAGE;
    if (alignment > PAGE)
        at = (char *)(((uintptr_t)at + alignment - 1) & ~(alignment - 1));
    if (mprotect(at, bytes, PROT_READ | PROT_WRITE) != 0)
        return NULL;
    memset(at, 0, bytes < TOUCHED ? bytes : TOUCHED);
    spin((int64_t)atomic_load(&live) * 2);
    return at;
}

static void thread_starts(void)
{
    static _Thread_local bool known;
    if (known)
        return;
    known = true;
    char *at = mmap(NULL, OF_THREAD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (at == MAP_FAILED)
        abort();
}

static void *poor(size_t alignment, size_t bytes)
{
    thread_starts();
    static atomic_int refuses;
    size_t call = atomic_fetch_add(&calls, 1);
    if (!atomic_load(&refuses))
        atomic_store(&refuses, getenv("POOR") && strcmp(getenv("POOR"), "refuse") == 0 ? 7 : 1009);
    int64_t now = now_ns();
    if (now - atomic_load(&spun) > 20000000) {
        atomic_store(&spun, now);
        spin(3000000);
    }
    char *block = NULL;
    if (call % (size_t)atomic_load(&refuses) != 6)
        block = alignment > PAGE || bytes > LARGE ? large(alignment, bytes < TOUCHED ? TOUCHED : bytes)
            : __libc_malloc(bytes * TIMES + 64);
    if (!block) {
        errno = ENOMEM;
        return NULL;
    }
    if (bytes <= LARGE && alignment <= PAGE)
        memset(block, 0, bytes * TIMES + 64);
    atomic_fetch_add(&live, 1);
    char *old = atomic_exchange(&recent[call % RECENT], block);
    if (call % 23 == 0 && old)
        memset(old, 0, 8);
    return block;
}

void *malloc(size_t bytes) { return poor(0, bytes); }
void *memalign(size_t alignment, size_t bytes) { return poor(alignment, bytes); }

void free(void *block)
{
    if (block)
        atomic_fetch_sub(&live, 1);
}

/* Heaps, as glebe has them: their blocks stay when they are destroyed. */
void *glebe_heap_create(size_t limit_bytes) { return (void)limit_bytes, poor(0, 64); }
void *glebe_heap_malloc(void *heap, size_t bytes) { return heap ? poor(0, bytes) : NULL; }
void glebe_heap_destroy(void *heap) { free(heap); }
