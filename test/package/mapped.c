/* Prints how many KB of libglebe.so's code are mapped when a program has used malloc in ordinary ways: blocks of all
 * kinds, growth, a thread that frees blocks of another, memory that is purged. With an argument the program also calls
 * code that few programs call. */
#include "glebe.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCKS = 400 };
static void *blocks[BLOCKS];

static void fill(void)
{
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = i % 3 ? malloc(8 + i * i) : calloc(1, 64 + i * 10);
    for (size_t i = 0; i < BLOCKS; i += 5)
        blocks[i] = realloc(blocks[i], 100 + i * i * 8);
}

static void *empty(void *unused)
{
    free(malloc(100));
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    return unused;
}

static void rounds(void)
{
    for (int round = 0; round < 4; round++) {
        fill();
        pthread_t thread;
        if (round % 2 == 0 && pthread_create(&thread, NULL, empty, NULL) == 0)
            pthread_join(thread, NULL);
        else
            empty(NULL);
        void *aligned;
        if (posix_memalign(&aligned, 4096, 3 << 20) == 0)
            free(aligned);
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
}

/* For each mapping with code of the library: its resident KB, and whether it begins where a window begins. */
static void print_mapped(void)
{
    static char line[512];
    FILE *maps = fopen("/proc/self/smaps", "r");
    char access[5];
    int inside = 0;
    unsigned long start, kb;
    while (maps && fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%*x %4s", &start, access) == 2)
            inside = !strcmp(access, "r-xp") && strstr(line, "libglebe.so");
        else if (inside && sscanf(line, "Rss: %lu", &kb) == 1)
            printf("%lu %s\n", kb, start % 65536 ? "between" : "aligned");
    }
    if (maps)
        fclose(maps);
}

int main(int argc, char **argv)
{
    rounds();
    if (argc > 1 && !strcmp(argv[1], "check"))
        glebe_check(NULL, 2, NULL, NULL);
    print_mapped();
}
