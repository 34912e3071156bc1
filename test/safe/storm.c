/* Threads that allocate, free each other's blocks, start and end, while others sleep in system calls with all signals
 * blocked, wait for signals, or compute; and children by fork. Every block carries its address and its size in its
 * first and last word: a block that two owners have, or that is cleared while in use, is noticed. Arguments: rounds,
 * threads. Prints nothing if all is well. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS = 4096 };
static _Atomic(uintptr_t *) table[SLOTS];
static long rounds;
static _Atomic int stop;

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    _exit(1);
}

static uintptr_t *make(size_t words)
{
    uintptr_t *block = malloc(words * sizeof *block);
    if (!block)
        fail("no memory");
    block[1] = words;
    block[0] = block[words - 1] = (uintptr_t)block ^ words;
    return block;
}

static void destroy(uintptr_t *block)
{
    if (!block)
        return;
    uintptr_t words = block[1], want = (uintptr_t)block ^ words;
    if (block[0] != want || block[words - 1] != want)
        fail("a block in use was changed");
    free(block);
}

static void *work(void *seed)
{
    uint64_t random = (uintptr_t)seed * 0x9e3779b97f4a7c15u + 1;
    for (long i = 0; i < rounds; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        unsigned r = (unsigned)(random >> 33);
        size_t words = r % 64 == 0 ? 512 + r / 64 % 20000 : 3 + r / 64 % 200;
        destroy(atomic_exchange(&table[r % SLOTS], make(words)));
        if (r % 4096 == 1)
            atomic_exchange(&table[r / 4096 % SLOTS], NULL); /* a leak */
    }
    return NULL;
}

static void *sleep_blocked(void *unused)
{
    (void)unused;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    while (!stop)
        nanosleep(&(struct timespec){0, 20000000}, NULL);
    return NULL;
}

static void *wait_signals(void *unused)
{
    (void)unused;
    sigset_t all;
    int signal = 0;
    sigfillset(&all);
    while (signal != SIGUSR1) /* SIGCHLD comes too */
        if (sigwait(&all, &signal) || (signal != SIGUSR1 && signal != SIGCHLD))
            fail("sigwait returned a signal of glebe's");
    return NULL;
}

static void *come_and_go(void *unused)
{
    (void)unused;
    for (int i = 0; i < 40 && !stop; i++) {
        pthread_t one;
        if (pthread_create(&one, NULL, work, (void *)(uintptr_t)(1000 + i)) == 0)
            pthread_join(one, NULL);
    }
    return NULL;
}

int main(int count, char **words)
{
    rounds = count > 1 ? atol(words[1]) : 20000;
    int threads = count > 2 ? atoi(words[2]) : 4;
    pthread_t workers[64], others[3];
    sigset_t user;
    sigemptyset(&user);
    sigaddset(&user, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &user, NULL);
    pthread_create(&others[0], NULL, sleep_blocked, NULL);
    pthread_create(&others[1], NULL, wait_signals, NULL);
    for (int i = 0; i < threads; i++)
        pthread_create(&workers[i], NULL, work, (void *)(uintptr_t)(i + 1));
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        if (child == 0) {
            work((void *)77);
            _exit(0);
        }
        int status;
        if (child > 0 && (waitpid(child, &status, 0) != child || status != 0))
            fail("a child failed");
    }
    for (int i = 0; i < threads; i++)
        pthread_join(workers[i], NULL);
    rounds = rounds / 50 + 1;
    pthread_create(&others[2], NULL, come_and_go, NULL);
    pthread_join(others[2], NULL);
    stop = 1;
    pthread_kill(others[1], SIGUSR1);
    pthread_join(others[0], NULL);
    pthread_join(others[1], NULL);
    return 0;
}
