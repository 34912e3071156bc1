/* Threads in one memory, each an instance of this module with its own stack and thread-local variables, which the
 * script sets up. No C library. Blocks move between threads: a worker allocates one, puts it into a shared slot, and
 * takes the block that was there, which another worker made. It checks the whole block, then frees it, or resizes it
 * and puts it into a slot again. Meanwhile other code grows memory.
 *
 *     place(bytes)        memory for a worker's stack and thread-local variables
 *     wait(sleeps)        how this thread waits for others
 *     work(seed, steps)   0, or the number of an error
 *     finish(workers, place bytes)   frees all blocks and checks the heap; same result
 *     cost(pairs)         so many pairs of free and malloc, for figures */
#include <glebe.h>
#include <stdatomic.h>

#define EXPORT(name) __attribute__((export_name(#name)))

enum { SLOTS = 256, GROWS_MOST = 64, LONGEST = 60000 };

_Thread_local int errno; /* there is no C library to define it */

typedef struct block {
    size_t words;
    uint64_t seed;
    uint64_t word[];
} block;

static _Atomic(block *) slots[SLOTS];
static atomic_int grows;
static _Thread_local uint32_t chance;
static _Thread_local uint32_t mistakes; /* a thread's own: anything but 0 at its start is another thread's */

static uint32_t below(uint32_t n)
{
    chance = chance * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)(chance >> 4) * n >> 28);
}

static uint64_t word_of(const block *b, size_t i)
{
    return (b->seed + i) * UINT64_C(0x9e3779b97f4a7c15);
}

static size_t some_bytes(void)
{
    uint32_t kind = below(64);
    return sizeof(block) + (kind == 0 ? below(LONGEST) : kind < 8 ? below(6000) : below(500));
}

static block *filled(block *b, size_t bytes)
{
    b->words = (bytes - sizeof *b) / 8;
    b->seed = (uint64_t)(uintptr_t)b << 32 | chance;
    for (size_t i = 0; i < b->words; i++)
        b->word[i] = word_of(b, i);
    return b;
}

/* True if the block still holds its filling. */
static bool same(const block *b, size_t words)
{
    for (size_t i = 0; i < words; i++)
        if (b->word[i] != word_of(b, i))
            return false;
    return true;
}

static block *made(void)
{
    size_t bytes = some_bytes();
    if (below(8) == 0) {
        block *b = glebe_calloc(1, bytes);
        for (size_t i = 0; b && i < bytes / 8; i++)
            mistakes += ((uint64_t *)b)[i] != 0;
        return b ? filled(b, bytes) : NULL;
    }
    block *b = below(8) == 0 ? glebe_aligned_alloc((size_t)16 << below(8), bytes) : glebe_malloc(bytes);
    return b ? filled(b, bytes) : NULL;
}

EXPORT(place) void *place(size_t bytes)
{
    return glebe_aligned_alloc(16, bytes);
}

EXPORT(wait) void wait(int sleeps)
{
    glebe_thread_wait(sleeps);
}

EXPORT(work) int work(uint32_t seed, uint32_t steps)
{
    if (mistakes)
        return 1;
    chance = seed * 7919 + 1;
    for (uint32_t i = 0; i < steps; i++) {
        block *b = made();
        if (!b)
            return 2;
        b = atomic_exchange(&slots[below(SLOTS)], b);
        if (!b)
            continue;
        if (!same(b, b->words) || glebe_usable_size(b) < sizeof *b + b->words * 8)
            return 3;
        if (below(3) == 0) {
            size_t bytes = some_bytes(), before = b->words, after = (bytes - sizeof *b) / 8;
            b = before % 2 ? glebe_realloc(b, bytes) : glebe_reallocarray(b, 1, bytes);
            if (!b)
                return 4;
            if (!same(b, before < after ? before : after))
                return 5;
            b = atomic_exchange(&slots[below(SLOTS)], filled(b, bytes));
        }
        glebe_free(b);
        if (i % 512 == 0 && atomic_fetch_add(&grows, 1) < GROWS_MOST && __builtin_wasm_memory_grow(0, 1) == SIZE_MAX)
            return 6;
    }
    return mistakes ? 7 : 0;
}

/* A block of each of several sizes, replaced one after the other. */
EXPORT(cost) int cost(uint32_t pairs)
{
    static _Thread_local void *held[64];
    for (uint32_t i = 0; i < pairs; i++) {
        glebe_free(held[i % 64]);
        held[i % 64] = glebe_malloc(16 + i % 64 * 8);
    }
    return 0;
}

EXPORT(finish) int finish(uint32_t workers, size_t place_bytes)
{
    for (int i = 0; i < SLOTS; i++) {
        block *b = atomic_exchange(&slots[i], NULL);
        if (b && !same(b, b->words))
            return 8;
        glebe_free(b);
    }
    if (glebe_check(NULL, 2, NULL, NULL) != 0)
        return 9;
    glebe_trim(NULL);
    glebe_stats stats;
    glebe_stats_read(&stats);
    /* the places, and a page of each class */
    if (stats.large_bytes > workers * (place_bytes + 4096) || stats.small_bytes > 1 << 20)
        return 10;
    return glebe_check(NULL, 2, NULL, NULL) == 0 ? 0 : 11;
}
