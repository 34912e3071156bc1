/* Shared by the stress programs: real threads on the real port. Each block's contents are verified when it is freed,
 * and the whole heap is checked whenever all threads rest.
 *
 *     PROGRAM [ROUNDS [SEED [THREADS]]]     prints the seed first; 0 or none takes one from the clock
 *
 * Programs call glebe_* and are linked with src/glebe.c, for sanitizers; with -DSTRESS_MALLOC they call the malloc
 * family instead, and are linked with libglebe.so. */
#ifndef GLEBE_TEST_STRESS_H
#define GLEBE_TEST_STRESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "glebe.h"

#ifdef STRESS_MALLOC
#define glebe_malloc malloc
#define glebe_calloc calloc
#define glebe_realloc realloc
#define glebe_free free
#define glebe_aligned_alloc(alignment, bytes) aligned_alloc(alignment, ((bytes) + (alignment) - 1) & ~((alignment) - 1))
#endif

#define UNUSED __attribute__((unused))
enum { STRESS_THREADS_MAX = 32 };

static uint64_t stress_seed;
static int stress_rounds, stress_threads;

#define REQUIRE(condition) \
    do \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s (seed %llu)\n", __FILE__, __LINE__, #condition, \
                (unsigned long long)stress_seed); \
            abort(); \
        } \
    while (0)

static void stress_start(int count, char **words, int rounds, int threads)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    stress_rounds = count > 1 && atoi(words[1]) > 0 ? atoi(words[1]) : rounds;
    stress_seed = count > 2 ? strtoull(words[2], NULL, 10) : 0;
    stress_seed = stress_seed ? stress_seed : (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    stress_threads = count > 3 && atoi(words[3]) > 0 ? atoi(words[3]) : threads;
    stress_threads = stress_threads > STRESS_THREADS_MAX ? STRESS_THREADS_MAX : stress_threads;
    printf("%s %d %llu %d\n", words[0], stress_rounds, (unsigned long long)stress_seed, stress_threads);
    fflush(stdout);
    const char *purge_ms = getenv("STRESS_PURGE_MS");
    glebe_option("purge_ms", purge_ms ? purge_ms : "5"); /* purge all the time */
    glebe_option("on_error", "abort");
}

UNUSED static uint64_t stress_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

UNUSED static size_t stress_below(uint64_t *state, size_t n) { return (size_t)(stress_random(state) % n); }

/* Mostly small, some medium, few large and huge. */
UNUSED static size_t stress_size(uint64_t *state)
{
    size_t pick = stress_below(state, 1000);
    if (pick < 600)
        return stress_below(state, 256);
    if (pick < 900)
        return stress_below(state, 2100);
    if (pick < 985)
        return stress_below(state, 70000);
    if (pick < 998)
        return stress_below(state, 1200000);
    return stress_below(state, 6000000);
}

/* ---- blocks with contents ---- */

typedef struct stress_block {
    unsigned char *at;
    size_t bytes;
    uint64_t tag;
} stress_block;

static size_t stress_next(size_t i, size_t bytes)
{
    i++;
    return i < 48 || i + 16 >= bytes ? i : i + 509 < bytes - 16 ? i + 509 : bytes - 16;
}

UNUSED static void stress_write(stress_block *b)
{
    for (size_t i = 0; i < b->bytes; i = stress_next(i, b->bytes))
        b->at[i] = (unsigned char)(b->tag + i * 13);
}

UNUSED static void stress_read(const stress_block *b, size_t bytes)
{
    for (size_t i = 0; i < bytes; i = stress_next(i, b->bytes))
        REQUIRE(b->at[i] == (unsigned char)(b->tag + i * 13));
}

UNUSED static stress_block stress_make(uint64_t *state)
{
    stress_block b = {NULL, stress_size(state), stress_random(state)};
    switch (stress_below(state, 8)) {
    case 0:
        b.at = glebe_calloc(1, b.bytes);
        REQUIRE(b.at);
        for (size_t i = 0; i < b.bytes; i = stress_next(i, b.bytes))
            REQUIRE(b.at[i] == 0);
        break;
    case 1: {
        size_t alignment = (size_t)16 << stress_below(state, 9);
        b.at = glebe_aligned_alloc(alignment, b.bytes);
        REQUIRE((uintptr_t)b.at % alignment == 0);
        break;
    }
    default: b.at = glebe_malloc(b.bytes);
    }
    REQUIRE(b.at);
    stress_write(&b);
    return b;
}

UNUSED static void stress_resize(stress_block *b, uint64_t *state)
{
    size_t bytes = stress_below(state, 3) ? b->bytes / 2 + stress_below(state, b->bytes + 100) : stress_size(state);
    bytes = bytes > 8000000 ? 8000000 : bytes ? bytes : 1;
    stress_read(b, b->bytes);
    unsigned char *at = glebe_realloc(b->at, bytes);
    REQUIRE(at);
    b->at = at;
    if (bytes >= b->bytes)
        stress_read(b, b->bytes);
    else
        for (size_t i = 0; i < bytes && i < 48; i++)
            REQUIRE(at[i] == (unsigned char)(b->tag + i * 13));
    b->bytes = bytes;
    stress_write(b);
}

UNUSED static void stress_drop(stress_block *b)
{
    if (!b->at)
        return;
    stress_read(b, b->bytes);
    glebe_free(b->at);
    b->at = NULL;
}

/* ---- threads ---- */

static void stress_broken(void *context, int invariant, const void *address, const char *what)
{
    (void)context;
    fprintf(stderr, "seed %llu: invariant %d at %p: %s\n", (unsigned long long)stress_seed, invariant, address, what);
}

/* All other threads are at rest. */
UNUSED static void stress_check(void)
{
    REQUIRE(glebe_check(NULL, 2, stress_broken, NULL) == 0);
}

/* Every thread meets here; one of them checks the heap meanwhile. */
UNUSED static void stress_meet(pthread_barrier_t *barrier)
{
    if (pthread_barrier_wait(barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
        stress_check();
    pthread_barrier_wait(barrier);
}

/* Runs `run` on each thread, with its number, and waits for all. */
UNUSED static void stress_run(void *(*run)(void *))
{
    pthread_t threads[STRESS_THREADS_MAX];
    for (int i = 0; i < stress_threads; i++)
        REQUIRE(pthread_create(&threads[i], NULL, run, (void *)(intptr_t)i) == 0);
    for (int i = 0; i < stress_threads; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
}

/* Everything was freed: only abandoned heaps may still hold pages. */
UNUSED static void stress_end(void)
{
    glebe_stats s;
    glebe_trim(NULL);
    glebe_trim(NULL);
    stress_check();
    glebe_stats_read(&s);
    REQUIRE(s.errors == 0 && s.out_of_memory == 0);
#ifndef STRESS_MALLOC /* else the C library holds blocks of its own */
    REQUIRE(s.used_bytes == 0);
#endif
}

#endif
