/* fork while one thread flushes all streams and others read lines into growing buffers. getline grows a buffer under
 * its stream's lock; fflush waits for that lock while it holds glibc's list lock; fork takes the list lock. A fork that
 * holds the heap's lock while it waits for the list lock deadlocks. Two threads fork at once. The child starts a thread
 * that does the same, and forks again. */
#include "contract.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>

enum { READERS = 2, LINE = 300000 };
static int rounds;

static atomic_bool stop;
static const char *file_name;

static void read_line(FILE *file)
{
    char *line = NULL;
    size_t room = 0;
    rewind(file);
    CHECK(getline(&line, &room, file) == LINE + 1);
    free(line);
}

static void *read_lines(void *nothing)
{
    FILE *file = fopen(file_name, "r");
    CHECK(file);
    while (!atomic_load(&stop)) {
        read_line(file);
        sleep_ms(0);
    }
    fclose(file);
    return nothing;
}

static void *flush_all(void *nothing)
{
    while (!atomic_load(&stop)) {
        fflush(NULL);
        sleep_ms(0); /* let others run: these locks are not fair */
    }
    return nothing;
}

static void *read_one(void *nothing)
{
    FILE *file = fopen(file_name, "r");
    CHECK(file);
    read_line(file);
    fclose(file);
    fflush(NULL);
    return nothing;
}

static void waits_for(pid_t pid)
{
    int status;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
}

static void in_child(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, read_one, NULL) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        read_one(NULL);
        _exit(0);
    }
    waits_for(pid);
    CHECK(pthread_join(thread, NULL) == 0);
    read_one(NULL);
    _exit(0);
}

static void *forks(void *nothing)
{
    for (int round = 0; round < rounds; round++) {
        pid_t pid = fork();
        if (pid == 0)
            in_child();
        waits_for(pid);
    }
    return nothing;
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    rounds = atoi(argv[2]);
    file_name = argv[1];
    FILE *file = fopen(file_name, "w");
    CHECK(file);
    for (int i = 0; i < LINE; i++)
        putc('x', file);
    putc('\n', file);
    CHECK(fclose(file) == 0);
    pthread_t threads[READERS + 1], forker;
    for (int i = 0; i < READERS; i++)
        CHECK(pthread_create(&threads[i], NULL, read_lines, NULL) == 0);
    CHECK(pthread_create(&threads[READERS], NULL, flush_all, NULL) == 0);
    CHECK(pthread_create(&forker, NULL, forks, NULL) == 0);
    forks(NULL);
    CHECK(pthread_join(forker, NULL) == 0);
    atomic_store(&stop, true);
    for (int i = 0; i <= READERS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    return 0;
}
