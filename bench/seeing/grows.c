/* A program that takes memory until it is killed: threads, and the bytes of a block. Every eighth block is freed. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

__attribute__((noinline)) static char *grows(size_t bytes) { return malloc(bytes); }

static void *grow(void *each)
{
    size_t bytes = (size_t)each;
    for (size_t i = 0;; i++) {
        char *block = grows(bytes + i % 7 * (bytes / 8));
        if (!block)
            abort();
        memset(block, 1, bytes);
        if (i % 8 == 0)
            free(block);
    }
    return NULL;
}

int main(int count, char **words)
{
    if (count != 3)
        return 2;
    pthread_t thread;
    void *each = (void *)strtoul(words[2], NULL, 10);
    for (long i = strtol(words[1], NULL, 10); i > 1; i--)
        pthread_create(&thread, NULL, grow, each);
    grow(each);
}
