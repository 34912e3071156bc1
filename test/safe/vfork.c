/* Allocates and frees in the child of a vfork, which shares the memory, while another thread of the parent does so too.
 * POSIX does not permit that, but programs do it. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void churn(unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++) {
        size_t bytes = 1 + i * 7919 % 4000;
        char *block = malloc(bytes);
        memset(block, 0x77, bytes);
        free(block);
    }
}

static void *run(void *unused)
{
    churn(400000);
    return unused;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, run, NULL);
    for (int i = 0; i < 100; i++) {
        pid_t child = vfork();
        if (child == 0) {
            churn(3000);
            _exit(0);
        }
        int status;
        waitpid(child, &status, 0);
        if (status != 0)
            return 1;
        churn(3000);
    }
    pthread_join(thread, NULL);
    puts("ok");
    return 0;
}
