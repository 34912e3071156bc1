/* glebe_check while the background thread purges the heaps of threads that ended: the check holds that thread off, and
 * finds all counts right. */
#include "contract.h"

#include <dlfcn.h>
#include <pthread.h>

typedef int check(void *heap, int level, void (*report)(void *, int, const void *, const char *), void *context);

static void *leaves_blocks(void *unused)
{
    enum { BLOCKS = 600, ROUNDS = 20 };
    char *blocks[BLOCKS];
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            blocks[i] = kept(malloc(i * 17 % 9000 + 1));
            blocks[i][0] = 1;
        }
        for (size_t i = 0; i < BLOCKS; i++)
            if (round < ROUNDS - 1 || i % 3)
                free(blocks[i]);
    }
    return unused;
}

int main(void)
{
    enum { THREADS = 8, ROUNDS = 10, CHECKS = 60 };
    check *glebe_check = (check *)(uintptr_t)dlsym(RTLD_DEFAULT, "glebe_check");
    CHECK(glebe_check);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++)
            CHECK(pthread_create(&threads[i], NULL, leaves_blocks, NULL) == 0);
        for (int i = 0; i < THREADS; i++)
            CHECK(pthread_join(threads[i], NULL) == 0);
        for (int i = 0; i < CHECKS; i++)
            CHECK(glebe_check(NULL, 2, NULL, NULL) == 0);
    }
    return 0;
}
