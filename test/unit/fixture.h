/* Shared by the tests on the fake port: the core, and a fresh process for each test.
 *
 * Tests link with the core (FIXTURE_LINKED, which CMake sets): compiling it for each of them took most of the time.
 * Without FIXTURE_LINKED a test includes the core, as fuzz targets do.
 *
 *     fixture_start(seed)       no region, no heap, no statistics; an empty fake host; errors are counted, not fatal
 *     fixture_thread(k)         from here on the test is thread k (0..15): each has a heap from its first malloc on
 *     fixture_thread_end(k)     thread k ends, and its heap is an abandoned heap
 *     fixture_check()           glebe_check at level 2 finds nothing; else its findings are printed, and the test fails
 *     fixture_balance()         the host's count of committed memory equals the statistics'
 *     fixture_release()         collects in every thread; then no memory is in use, and the sums are right
 *
 * Unit tests use cmocka's asserts. A fuzz target or a model, which fails in another way, defines FIXTURE_FAIL first. */
#ifndef GLEBE_TEST_FIXTURE_H
#define GLEBE_TEST_FIXTURE_H

#include "build.h"
#ifdef FIXTURE_LINKED
#include "../../src/core.h"
#include "../../src/port/fake.h"

#include "statics.h"
#else
#include "core.c"
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef FIXTURE_FAIL
#include <cmocka.h>
#define FIXTURE_FAIL() fail()
#endif

/* A test may define these before. */
#ifndef FIXTURE_TRIM_FROM
#define FIXTURE_TRIM_FROM 0 /* tests have little memory */
#endif
#ifndef FIXTURE_WARM_BYTES
#define FIXTURE_WARM_BYTES 0 /* a block that was freed is free: warm_test.c and the models have warm ones */
#endif
#ifndef FIXTURE_FEW_HEAPS
#define FIXTURE_FEW_HEAPS 6 /* as in config.h */
#endif
#ifndef FIXTURE_FOREIGN
#define FIXTURE_FOREIGN false /* a block of another allocator is misuse */
#endif

enum { FIXTURE_THREADS = 16 };
static glebe_heap *fixture_selves[FIXTURE_THREADS];
static int fixture_now;

__attribute__((unused)) static void fixture_start(uint64_t seed)
{
    fixture_built = (struct fixture_built){FIXTURE_TRIM_FROM, FIXTURE_WARM_BYTES, FIXTURE_FEW_HEAPS, FIXTURE_FOREIGN};
    gb_fake_reset(seed);
    memset(&gb_the, 0, sizeof gb_the);
    memset(&glebe_live.stats, 0, sizeof glebe_live.stats);
#if GB_THREADS
    memset(&gb_heap_none, 0, sizeof gb_heap_none);
    gb_self = &gb_heap_none;
    gb_thread_ended = false;
#else
    memset(&gb_heap_main, 0, sizeof gb_heap_main);
#endif
    for (int i = 0; i < FIXTURE_THREADS; i++)
        fixture_selves[i] = gb_self;
    fixture_now = 0;
    gb_the.options.on_error = 1;
}

__attribute__((unused)) static int fixture_setup(void **state)
{
    (void)state;
    fixture_start(1);
    return 0;
}

/* Without threads, all of them are one. */
__attribute__((unused)) static void fixture_thread(int k)
{
    fixture_selves[fixture_now] = gb_self;
    fixture_now = k;
#if GB_THREADS
    gb_self = fixture_selves[k];
#endif
}

__attribute__((unused)) static void fixture_thread_end(int k)
{
#if GB_THREADS
    int before = fixture_now;
    fixture_thread(k);
    gb_thread_exit();
    gb_thread_ended = false; /* the next thread of this number is a new one */
    fixture_thread(before);
#else
    (void)k;
#endif
}

static void fixture_print(void *context, int invariant, const void *address, const char *what)
{
    int *printed = context;
    if (++*printed <= 8)
        fprintf(stderr, "invariant %d at %p: %s\n", invariant, address, what);
}

__attribute__((unused)) static void fixture_check(void)
{
    int printed = 0;
    if (glebe_check(NULL, 2, fixture_print, &printed) != 0)
        FIXTURE_FAIL();
}

__attribute__((unused)) static void fixture_balance(void)
{
    glebe_stats s;
    glebe_stats_read(&s);
    if (fake.committed_bytes != s.committed_bytes + s.table_bytes) {
        fprintf(stderr, "the host committed %zu bytes, the statistics say %llu and %llu\n", fake.committed_bytes,
            (unsigned long long)s.committed_bytes, (unsigned long long)s.table_bytes);
        FIXTURE_FAIL();
    }
}

/* Frees pass from thread to thread: a second round takes in the remote frees that the first one sent. */
__attribute__((unused)) static void fixture_collect(void)
{
    int before = fixture_now;
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < FIXTURE_THREADS; i++) {
            fixture_thread(i);
            if (i == 0 || gb_self->number.n)
                glebe_trim(NULL);
        }
    fixture_thread(before);
}

__attribute__((unused)) static void fixture_release(void)
{
    glebe_stats s;
    fixture_collect();
    fixture_check();
    fixture_balance();
    glebe_stats_read(&s);
    if (s.used_bytes != 0) {
        fprintf(stderr, "%llu bytes are in use without a block\n", (unsigned long long)s.used_bytes);
        FIXTURE_FAIL();
    }
}

/* Requires that exactly this text was printed since the last call. */
__attribute__((unused)) static void fixture_printed(const char *text)
{
    if (strcmp(fake.printed, text) != 0) {
        fprintf(stderr, "printed: %sexpected: %s", fake.printed, text);
        FIXTURE_FAIL();
    }
    fake.printed_bytes = 0;
    fake.printed[0] = 0;
}

/* Requires that exactly a report with this first line was printed since the last call. */
__attribute__((unused)) static void fixture_reported(const char *line)
{
    char report[600];
    snprintf(report, sizeof report, "%s  in %s[4711]%s\n", line, fake.program ? fake.program : "",
        (GB_SECURE || GB_AUDIT) && !gb_the.options.on_error
            ? "; for a backtrace, put before the command line: gdb -batch -ex run -ex bt --args"
            : "");
    fixture_printed(report);
}

/* A pattern that depends on the block, so that no block can pass for another. In words, as these loops take most of the
 * time of many tests, which are compiled without optimization. */
typedef uint64_t __attribute__((may_alias, aligned(1))) fixture_words;
#define FIXTURE_FIRST(tag) (((tag) + 1) * 0x9e3779b97f4a7c15)
#define FIXTURE_STEP       0xbf58476d1ce4e5b9

__attribute__((unused)) static void fixture_fill(void *block, size_t bytes, uint64_t tag)
{
    fixture_words *at = block, *end = at + bytes / 8;
    uint64_t word = FIXTURE_FIRST(tag);
    for (; at < end; word += FIXTURE_STEP)
        *at++ = word;
    memcpy(at, &word, bytes % 8);
}

__attribute__((unused)) static bool fixture_filled(const void *block, size_t bytes, uint64_t tag)
{
    const fixture_words *at = block, *end = at + bytes / 8;
    uint64_t word = FIXTURE_FIRST(tag);
    for (; at < end; word += FIXTURE_STEP)
        if (*at++ != word)
            return false;
    return memcmp(at, &word, bytes % 8) == 0;
}

__attribute__((unused)) static bool fixture_zero(const void *block, size_t bytes)
{
    const unsigned char *p = block;
    return bytes == 0 || (p[0] == 0 && memcmp(p, p + 1, bytes - 1) == 0);
}

#define FIXTURE_TEST(f) cmocka_unit_test_setup(f, fixture_setup)

#endif
