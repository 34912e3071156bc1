/* A library whose constructor registers fork handlers. argv[1] of the program:
 *     locks    the library holds its own lock while it allocates, and its handlers take and drop that lock: fork must
 *              not wait for it while it holds the heap's lock
 *     forks    its first handler forks itself; the child of the inner fork continues the outer fork, as its parent does
 * The library allocates before it registers the handlers, unless it is compiled with -DFIRST. */
#include "contract.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>

void others_work(uint32_t *state);
extern bool others_fork;

#ifdef LIBRARY
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
bool others_fork;

void others_work(uint32_t *state)
{
    if (!others_fork)
        pthread_mutex_lock(&lock);
    void *block = malloc(70000 + chance(state) % 100000);
    CHECK(block);
    free(block);
    if (!others_fork)
        pthread_mutex_unlock(&lock);
}

static void prepare(void)
{
    static bool inside;
    if (!others_fork) {
        sleep_ms(1); /* if the heap's lock is held, the holder of our lock waits for it by now */
        pthread_mutex_lock(&lock);
    } else if (!inside) {
        inside = true;
        pid_t pid = fork();
        int status;
        CHECK(pid == 0 || (pid > 0 && waitpid(pid, &status, 0) == pid && status == 0));
        inside = false;
    }
}

static void done(void)
{
    if (!others_fork)
        pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void start(void)
{
#ifndef FIRST
    free(kept(malloc(10)));
#endif
    CHECK(pthread_atfork(prepare, done, done) == 0);
}

#else

enum { WORKERS = 3, ROUNDS = 100 };

static atomic_bool stop;

static void *work(void *seed)
{
    uint32_t state = (uint32_t)(uintptr_t)seed;
    while (!atomic_load(&stop)) {
        others_work(&state);
        sleep_ms(0); /* let others run: the lock is not fair */
    }
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    others_fork = strcmp(argv[1], "forks") == 0;
    pid_t self = getpid();
    pthread_t workers[WORKERS], more;
    for (int i = 0; i < WORKERS; i++)
        CHECK(pthread_create(&workers[i], NULL, work, (void *)(uintptr_t)(i + 1)) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        int status;
        CHECK(pid == 0 || (waitpid(pid, &status, 0) == pid && status == 0));
        if (pid && getpid() == self)
            continue;
        uint32_t state = (uint32_t)round; /* a child of either fork */
        for (int i = 0; i < 20; i++)
            others_work(&state);
        atomic_store(&stop, true);
        CHECK(pthread_create(&more, NULL, work, NULL) == 0);
        CHECK(pthread_join(more, NULL) == 0);
        _exit(0);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < WORKERS; i++)
        CHECK(pthread_join(workers[i], NULL) == 0);
    return 0;
}
#endif
