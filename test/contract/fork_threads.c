/* fork in a process whose threads allocate without pause: the child can allocate, free inherited blocks, start threads
 * and fork again, and no round hangs. Exit status 42: a child hung, as it does without fork handlers. */
#include "contract.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>

enum { WORKERS = 3, INHERITED = 400 };

static atomic_bool stop;
static void *inherited[INHERITED];

static void *churn(void *seed)
{
    uint32_t state = (uint32_t)(uintptr_t)seed;
    static __thread void *blocks[64];
    while (!atomic_load(&stop)) {
        void **slot = &blocks[chance(&state) % 64];
        free(*slot);
        size_t bytes = chance(&state) % 4 ? 70000 + chance(&state) % 100000 : any_size(&state);
        *slot = malloc(bytes);
        CHECK(*slot);
        *(char *)*slot = 1;
    }
    for (int i = 0; i < 64; i++)
        free(blocks[i]);
    return NULL;
}

static void *short_churn(void *seed)
{
    uint32_t state = (uint32_t)(uintptr_t)seed;
    for (int i = 0; i < 500; i++) {
        char *block = malloc(any_size(&state));
        CHECK(block);
        block[0] = 1;
        free(block);
    }
    return NULL;
}

static void in_child(int round)
{
    short_churn((void *)(uintptr_t)round);
    for (int i = 0; i < INHERITED; i++)
        free(inherited[i]);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, short_churn, (void *)(uintptr_t)(round + i)) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    if (round % 10 == 0) {
        pid_t grandchild = fork();
        CHECK(grandchild >= 0);
        if (grandchild == 0) {
            short_churn((void *)(uintptr_t)round);
            _exit(0);
        }
        int status;
        CHECK(waitpid(grandchild, &status, 0) == grandchild && status == 0);
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 200, patience = argc > 2 ? atoi(argv[2]) : 200; /* seconds */
    pthread_t workers[WORKERS];
    for (int i = 0; i < WORKERS; i++)
        CHECK(pthread_create(&workers[i], NULL, churn, (void *)(uintptr_t)(i + 1)) == 0);
    for (int round = 0; round < rounds; round++) {
        uint32_t state = (uint32_t)round;
        for (int i = 0; i < INHERITED; i++)
            inherited[i] = malloc(any_size(&state));
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            in_child(round);
        int status = 0;
        pid_t got = 0;
        for (int waited = 0; waited < patience * 500 && (got = waitpid(child, &status, WNOHANG)) == 0; waited++)
            sleep_ms(waited < 100 ? 1 : 2);
        if (got == 0) {
            kill(child, SIGKILL);
            fprintf(stderr, "round %d: the child hung\n", round);
            _exit(42);
        }
        CHECK(got == child && status == 0);
        for (int i = 0; i < INHERITED; i++)
            free(inherited[i]);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < WORKERS; i++)
        CHECK(pthread_join(workers[i], NULL) == 0);
    return 0;
}
