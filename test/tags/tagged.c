/* One misuse of memory that tags find, or a program without one: tagged WAY. Prints the address that the report must
 * name. */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "glebe.h"

#define KEEP(pointer) __asm__ volatile("" : "+r"(pointer) : : "memory")

static uintptr_t plain(const void *address) { return (uintptr_t)address & UINTPTR_MAX >> 8; }

/* Prints the address, and reads a byte there. */
static int touch(volatile char *at)
{
    printf("at %#lx\n", (unsigned long)plain((const char *)at));
    fflush(stdout);
    (void)*at;
    return 0;
}

static char *block_of(size_t bytes)
{
    char *block = malloc(bytes);
    KEEP(block);
    memset(block, 1, bytes);
    return block;
}

/* A block with neighbours: a guard may lie beyond the first and the last block of a page. */
static char *block_between(size_t bytes)
{
    char *block;
    do
        block = block_of(bytes);
    while (plain(block) % 4096 < 64 || plain(block) % 4096 > 4096 - 128);
    return block;
}

static int after_free(size_t bytes)
{
    char *block = block_of(bytes);
    free(block);
    KEEP(block);
    return touch(block + 5);
}

/* Returns the address of a block that was freed, and whose memory is another block's now, with another tag if blocks
 * have some: in one of 13 to 15 cases it is the same. */
static char *stale_address(void)
{
    enum { MOST = 4096 };
    char *stale = block_of(100), *block;
    free(stale);
    KEEP(stale);
    for (int i = 0; i < MOST; i++)
        if (plain(block = block_of(100)) == plain(stale)) {
            if (block != stale || (uintptr_t)stale >> 56 == 0)
                return stale;
            free(block);
        }
    puts("the block was not handed out again");
    exit(1);
}

/* ---- a program without misuse ---- */

enum { SLOTS = 300, ROUNDS = 4000, THREADS = 3 };
static _Atomic(char *) slots[SLOTS];

static void *work(void *seed)
{
    uint32_t state = (uint32_t)(uintptr_t)seed;
    for (int i = 0; i < ROUNDS; i++) {
        state = state * 1664525 + 1013904223;
        size_t bytes = 1 + (state >> 8) % (state >> 28 ? 700 : 90000);
        char *block = state & 64 ? calloc(1, bytes)
            : state & 128        ? aligned_alloc(64, (bytes + 63) / 64 * 64)
                                  : malloc(bytes);
        memset(block, 2, bytes);
        if (malloc_usable_size(block) < bytes)
            abort();
        if (state & 256) {
            block = realloc(block, bytes * 2);
            if (block[bytes - 1] != 2)
                abort();
            memset(block, 3, bytes * 2);
        }
        free(atomic_exchange_explicit(&slots[(state >> 16) % SLOTS], block, memory_order_relaxed));
    }
    return NULL;
}

/* Threads free each other's blocks; a child of fork frees its parent's; the kernel reads a tagged buffer. */
static int sound(void)
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    int status, pipes[2];
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < SLOTS; i++)
            free(slots[i]);
        _exit(glebe_check(NULL, 2, NULL, NULL) == 0 ? 0 : 7);
    }
    if (waitpid(child, &status, 0) != child || status != 0 || pipe(pipes) != 0)
        return 1;
    char *text = strdup("a tagged buffer"), copy[16];
    KEEP(text);
    if (write(pipes[1], text, sizeof copy) != sizeof copy || read(pipes[0], copy, sizeof copy) != sizeof copy)
        return 1;
    printf("%s: %s, %s\n", copy, (uintptr_t)text >> 56 ? "tagged" : "untagged",
        glebe_check(NULL, 2, NULL, NULL) == 0 ? "sound" : "damaged");
    return 0;
}

int main(int argc, char **argv)
{
    const char *way = argc == 2 ? argv[1] : "";
    char *stale, *block;
    if (strcmp(way, "sound") == 0)
        return sound();
    if (strcmp(way, "small-after-free") == 0)
        return after_free(100);
    if (strcmp(way, "medium-after-free") == 0)
        return after_free(9000);
    if (strcmp(way, "overflow") == 0)
        return touch(block_between(40) + 48); /* its last 16 bytes in use end there */
    if (strcmp(way, "overflow-slack") == 0)
        return touch(block_of(1050) + 1056); /* of the same block, but no byte of the program's */
    if (strcmp(way, "underflow") == 0)
        return touch(block_between(40) - 1);
    if (strcmp(way, "realloc") == 0) {
        block = block_of(100);
        stale = block;
        KEEP(stale);
        block = realloc(block, 105);
        KEEP(block);
        return touch(stale);
    }
    if (strcmp(way, "reused") == 0)
        return touch(stale_address() + 3);
    if (strcmp(way, "reused-free") == 0) {
        stale = stale_address();
        printf("at %#lx\n", (unsigned long)stale);
        fflush(stdout);
        free(stale);
        return 0;
    }
    if (strcmp(way, "twice") == 0) {
        block = block_of(100);
        printf("at %#lx\n", (unsigned long)plain(block));
        fflush(stdout);
        free(block);
        KEEP(block);
        free(block);
        return 0;
    }
    return 2;
}
