/* Shared by the programs of this folder: a check that names its line and ends the program. Each program shows that
 * glebe keeps one promise of docs/contracts.md. Unless it says otherwise, it works with any malloc: to find a mistake
 * in the test itself, run it with nothing preloaded. */
#ifndef CONTRACT_H
#define CONTRACT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s does not hold (errno %d)\n", __FILE__, __LINE__, #condition, errno); \
            _exit(1); \
        } \
    } while (0)

/* Resident bytes of this process, without allocating. */
__attribute__((unused)) static size_t resident_bytes(void)
{
    static char text[128];
    FILE *file = fopen("/proc/self/statm", "r");
    size_t total = 0, resident = 0;
    if (!file || !fgets(text, sizeof text, file) || sscanf(text, "%zu %zu", &total, &resident) != 2)
        _exit(3);
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* Hides a pointer's origin from the compiler, so that no malloc is optimised away. */
__attribute__((unused)) static void *kept(void *p)
{
    __asm__ volatile("" : "+r"(p) : : "memory");
    return p;
}

__attribute__((unused)) static void sleep_ms(unsigned ms)
{
    struct timespec t = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    nanosleep(&t, NULL);
}

__attribute__((unused)) static uint32_t chance(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* A typical size: mostly small, sometimes of every other kind. */
__attribute__((unused)) static size_t any_size(uint32_t *state)
{
    uint32_t c = chance(state);
    switch (c % 32) {
    case 0: return 2048 + chance(state) % 60000;
    case 1: return 65536 + chance(state) % 900000;
    case 2: return c % 512 == 2 ? (size_t)1048576 + chance(state) % 3000000 : 5000;
    default: return 1 + chance(state) % 1024;
    }
}

#endif
