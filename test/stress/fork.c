/* Fork while other threads work: the child can at once allocate, free its own blocks and those of threads that did not
 * survive, and start threads; the parent continues. */
#include "stress.h"

#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOTS = 64 };
static atomic_bool over;

static void *fork_run(void *number)
{
    uint64_t state = stress_seed * 47 + (uint64_t)(intptr_t)number;
    stress_block own[SLOTS] = {{NULL, 0, 0}};
    while (!atomic_load(&over)) {
        size_t k = stress_below(&state, SLOTS);
        stress_drop(&own[k]);
        own[k] = stress_make(&state);
    }
    for (int i = 0; i < SLOTS; i++)
        stress_drop(&own[i]);
    return NULL;
}

static void *fork_child_run(void *unused)
{
    uint64_t state = stress_seed * 53;
    for (int i = 0; i < 200; i++) {
        stress_block b = stress_make(&state);
        stress_resize(&b, &state);
        stress_drop(&b);
    }
    return unused;
}

int main(int count, char **words)
{
    stress_start(count, words, 12, 3);
    pthread_t threads[STRESS_THREADS_MAX];
    for (int i = 0; i < stress_threads; i++)
        REQUIRE(pthread_create(&threads[i], NULL, fork_run, (void *)(intptr_t)i) == 0);
    uint64_t state = stress_seed;
    stress_block own[SLOTS] = {{NULL, 0, 0}};
    for (int round = 0; round < stress_rounds; round++) {
        for (int i = 0; i < 500; i++) {
            size_t k = stress_below(&state, SLOTS);
            stress_drop(&own[k]);
            own[k] = stress_make(&state);
        }
        pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            for (int i = 0; i < SLOTS; i++)
                stress_drop(&own[i]);
            fork_child_run(NULL);
            pthread_t thread;
            /* The sanitizers' own allocators and qemu cannot start a thread in the child of a process with threads. */
            for (int i = 0; i < 1 && !getenv("STRESS_CHILD_WITHOUT_THREADS"); i++) {
                REQUIRE(pthread_create(&thread, NULL, fork_child_run, NULL) == 0);
                REQUIRE(pthread_join(thread, NULL) == 0);
            }
            glebe_trim(NULL);
            _exit(0);
        }
        int status = 0;
        REQUIRE(waitpid(child, &status, 0) == child && status == 0);
    }
    atomic_store(&over, true);
    for (int i = 0; i < stress_threads; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < SLOTS; i++)
        stress_drop(&own[i]);
    stress_end();
    return 0;
}
