/* A thread allocates 16 MiB in blocks of argv[1] bytes and lives on; the process forks, and the child frees all blocks.
 * Prints the bytes held for that thread before and after the frees; then the bytes after the frees for a thread that
 * had freed every other block before the fork. */
#include "contract.h"

#include <glebe.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { TOTAL = 16 << 20, MOST = TOTAL / 64 };

static void *blocks[MOST];
static size_t bytes, count;
static int step; /* every step-th block is freed by the thread */
static pthread_barrier_t ready, done;

static size_t used(void)
{
    glebe_stats stats;
    glebe_trim(NULL);
    glebe_stats_read(&stats);
    return (size_t)stats.used_bytes;
}

static void *run(void *nothing)
{
    for (size_t i = 0; i < count; i++)
        memset(blocks[i] = malloc(bytes), 1, 16);
    for (size_t i = 0; step && i < count; i += (size_t)step) {
        free(blocks[i]);
        blocks[i] = NULL;
    }
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&done);
    return nothing;
}

static void inherit(int say_held)
{
    size_t before = used();
    pthread_t thread;
    CHECK(pthread_barrier_init(&ready, NULL, 2) == 0 && pthread_barrier_init(&done, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, run, NULL) == 0);
    pthread_barrier_wait(&ready);
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        size_t held = used() - before;
        for (size_t i = 0; i < count; i++)
            free(blocks[i]);
        size_t kept = used() - before;
        CHECK(glebe_check(NULL, 2, NULL, NULL) == 0);
        if (say_held)
            printf("%zu ", held);
        printf("%zu\n", kept);
        for (size_t i = 0; i < count; i++) /* and the heap serves */
            CHECK((blocks[i] = malloc(bytes)) != NULL);
        CHECK(glebe_check(NULL, 2, NULL, NULL) == 0);
        fflush(stdout);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    pthread_barrier_wait(&done);
    CHECK(pthread_join(thread, NULL) == 0);
    for (size_t i = 0; i < count; i++)
        free(blocks[i]);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    bytes = (size_t)atoi(argv[1]);
    count = TOTAL / bytes + 1;
    count = count < MOST ? count : MOST;
    inherit(1);
    step = 2;
    inherit(0);
    return 0;
}
