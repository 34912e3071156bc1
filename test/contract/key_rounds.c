/* Destructors of thread-specific data allocate and free in every round that POSIX allows, in keys made before and after
 * glebe's own. Nothing crashes, and other threads reuse the heaps of such threads. */
#include "contract.h"

#include <pthread.h>

#include <glebe.h>

enum { THREADS = 400, KEYS = 4 };

static pthread_key_t keys[KEYS];
static __thread int rounds;

static void stubborn(void *value)
{
    free(value);
    char *block = malloc(3000);
    CHECK(block);
    memset(block, 1, 3000);
    free(block);
    rounds++;
    if (rounds < 100) /* sets the key again in each round, until the system stops */
        CHECK(pthread_setspecific(keys[1], malloc(100)) == 0);
}

static void once(void *value)
{
    free(value);
    free(kept(malloc(200)));
}

static void *work(void *unused)
{
    (void)unused;
    for (int i = 0; i < KEYS; i++)
        CHECK(pthread_setspecific(keys[i], malloc(100)) == 0);
    return NULL;
}

int main(void)
{
    CHECK(pthread_key_create(&keys[0], once) == 0);
    free(kept(malloc(1))); /* glebe makes its key with the first block, unless the C library has allocated before */
    CHECK(pthread_key_create(&keys[1], stubborn) == 0);
    CHECK(pthread_key_create(&keys[2], once) == 0);
    CHECK(pthread_key_create(&keys[3], once) == 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, work, NULL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    glebe_stats stats;
    glebe_stats_read(&stats);
    printf("%zu heaps after %d threads, %zu of them abandoned\n", (size_t)stats.heaps, THREADS,
        (size_t)stats.heaps_abandoned);
    CHECK(stats.heaps < 10);
    return 0;
}
