/* Other code's fork handlers may allocate, whether they were registered before or after glebe's: blocks of every size,
 * in all three handlers. The library fork_handlers_early.c registers them in a constructor, and this program registers
 * them again in main. */
#include "contract.h"

#include <pthread.h>
#include <sys/wait.h>

static void *blocks[3][5];

static void fill(int which)
{
    static const size_t sizes[] = {40, 3000, 30000, 300000, 3000000};
    for (int i = 0; i < 5; i++) {
        free(blocks[which][i]);
        blocks[which][i] = malloc(sizes[i]);
        CHECK(blocks[which][i]);
        for (size_t at = 0; at < sizes[i]; at += sizes[i] / 8) /* not each page: the system's part takes long */
            ((char *)blocks[which][i])[at] = 1;
    }
}

static void prepare(void)
{
    for (int i = 0; i < 200; i++)
        fill(0);
}

static void parent(void)
{
    fill(1);
}

static void child(void)
{
    fill(2);
}

#ifdef EARLY
__attribute__((constructor)) static void start(void)
{
    CHECK(pthread_atfork(prepare, parent, child) == 0);
}
#else
int main(void)
{
    CHECK(pthread_atfork(prepare, parent, child) == 0);
    for (int round = 0; round < 20; round++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0)
            _exit(0);
        int status;
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    }
    return 0;
}
#endif
