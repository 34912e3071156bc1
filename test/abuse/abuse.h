/* Shared by the programs of this folder. Each misuses the allocator in one way, and prints the data that the test
 * needs: the addresses that the line on stderr must name, and the state of the heap at the end.
 *
 *     ADDRESS 0x...      the argument of the call that is wrong
 *     START 0x...        the start of the block that it is in
 *     ERRORS n           how many misuses glebe counted
 *     SOUND | BROKEN     afterwards: glebe_check passes for every heap, and the heap still serves; or not
 *
 * The head comment of a program gives the expectation for each build: after `default:`, `secure:`, `audit:` or `all:`
 * is the exact line, `undetected` (no line, and all later behaviour is undefined), `served` (no line, exit 0) or
 * `faults` (SIGSEGV). A comment of the form `say: ...` explains it in docs/misuse.md. */
#ifndef ABUSE_H
#define ABUSE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <glebe.h>

enum { SMALL = 64, MEDIUM = 6000, LARGE = 100000, HUGE_ = 3000000 }; /* rounded up: 64, 6144, 114688, 3002368 */

extern void free_sized(void *, size_t) __attribute__((weak));
extern void free_aligned_sized(void *, size_t, size_t) __attribute__((weak));

/* printf would allocate a buffer in the heap that is being abused. */
__attribute__((format(printf, 1, 2), unused)) static void abuse_say(const char *format, ...)
{
    char line[256];
    va_list list;
    va_start(list, format);
    int n = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    if (write(STDOUT_FILENO, line, (size_t)n) != n)
        _exit(2);
}

/* Prints the address that is about to be misused, and hides its origin from the compiler. */
__attribute__((unused)) static void *wrong(void *address)
{
    abuse_say("ADDRESS 0x%zx\n", (size_t)(uintptr_t)address);
    __asm__("" : "+r"(address));
    return address;
}

/* The same for an address `by` bytes into a block. */
__attribute__((unused)) static void *inside(void *block, size_t by)
{
    abuse_say("START 0x%zx\n", (size_t)(uintptr_t)block);
    return wrong((char *)block + by);
}

/* Runs the function on another thread, and waits for its end. */
__attribute__((unused)) static void on_thread(void *(*run)(void *), void *argument)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, argument) != 0 || pthread_join(thread, NULL) != 0)
        _exit(2);
}

__attribute__((unused)) static void *free_it(void *block)
{
    free(block);
    return NULL;
}

__attribute__((unused)) static void abuse_broken(void *context, int invariant, const void *address, const char *what)
{
    (void)context;
    abuse_say("broken invariant %d at %p: %s\n", invariant, (void *)(uintptr_t)address, what);
}

/* After a counted report the program continues: the heap must be sound, and serve. */
__attribute__((unused)) static int abuse_end(void)
{
    static const size_t sizes[] = {1, 16, SMALL, 500, 2000, MEDIUM, 60000, LARGE, 1000000, HUGE_};
    enum { SIZES = sizeof sizes / sizeof sizes[0], EACH = 20 };
    glebe_stats stats;
    glebe_stats_read(&stats);
    abuse_say("ERRORS %zu\n", (size_t)stats.errors);
    if (stats.errors == 0)
        _exit(0);
    static unsigned char *blocks[SIZES * EACH];
    for (int i = 0; i < SIZES * EACH; i++) {
        blocks[i] = malloc(sizes[i % SIZES]);
        if (!blocks[i])
            _exit(2);
        memset(blocks[i], i, sizes[i % SIZES]);
    }
    for (int i = 0; i < SIZES * EACH; i++) {
        if (blocks[i][0] != (unsigned char)i || blocks[i][sizes[i % SIZES] - 1] != (unsigned char)i)
            abuse_say("BROKEN block %d was given out twice\n", i);
        free(blocks[i]);
    }
    int broken = glebe_check(NULL, 2, abuse_broken, NULL);
    glebe_stats_read(&stats);
    abuse_say("%s\n", broken ? "BROKEN" : "SOUND");
    abuse_say("ERRORS %zu\n", (size_t)stats.errors);
    return broken != 0;
}

#endif
