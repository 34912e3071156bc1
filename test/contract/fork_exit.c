/* exit while other threads fork. exit runs the destructors of libraries, and glibc then forgets their fork handlers: a
 * handler that took locks before a fork must still drop them after it. */
#include "contract.h"

#include <pthread.h>
#include <sys/wait.h>

enum { FORKERS = 4, TOUCHED = 64 << 20 }; /* the more memory is resident, the longer fork takes */

static void *forks(void *nothing)
{
    for (;;) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(0);
        if (pid > 0)
            waitpid(pid, NULL, 0);
        free(malloc(100));
    }
    return nothing;
}

int main(void)
{
    char *touched = malloc(TOUCHED);
    CHECK(touched);
    memset(touched, 1, TOUCHED);
    for (int i = 0; i < FORKERS; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, forks, NULL) == 0);
    }
    sleep_ms(30 + getpid() % 20);
    exit(0);
}
