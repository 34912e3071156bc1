/* Threads end while others still hold and free their blocks: the next threads reuse the memory.
 *
 * 1,000 threads, eight at a time, each allocate 1 MiB in mixed sizes, free half and leave the rest to the main thread,
 * which frees it after their end. Without reuse that would be 500 MiB or more. */
#include "contract.h"

#include <pthread.h>

enum { THREADS = 1000, AT_ONCE = 8, BLOCKS = 2000 };

static void *left[AT_ONCE][BLOCKS];

static void *work(void *slot)
{
    void **blocks = slot;
    uint32_t state = (uint32_t)(uintptr_t)slot;
    for (int i = 0; i < BLOCKS; i++) {
        size_t bytes = 1 + chance(&state) % 1000;
        blocks[i] = malloc(bytes);
        CHECK(blocks[i]);
        memset(blocks[i], i, bytes);
    }
    for (int i = 0; i < BLOCKS; i += 2) {
        free(blocks[i]);
        blocks[i] = NULL;
    }
    return NULL;
}

int main(void)
{
    size_t after_first = 0, most = 0;
    for (int round = 0; round < THREADS / AT_ONCE; round++) {
        pthread_t threads[AT_ONCE];
        for (int i = 0; i < AT_ONCE; i++)
            CHECK(pthread_create(&threads[i], NULL, work, left[i]) == 0);
        for (int i = 0; i < AT_ONCE; i++)
            CHECK(pthread_join(threads[i], NULL) == 0);
        for (int i = 0; i < AT_ONCE; i++)
            for (int k = 0; k < BLOCKS; k++)
                free(left[i][k]);
        size_t now = resident_bytes();
        if (round == 4)
            after_first = now;
        if (round > 4 && now > most)
            most = now;
    }
    printf("resident after 5 rounds %zu KiB, at most later %zu KiB\n", after_first >> 10, most >> 10);
    CHECK(most < after_first + ((size_t)16 << 20));
    return 0;
}
