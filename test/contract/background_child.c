/* With GLEBE_BACKGROUND=1 a program has one thread until it uses 2 MiB, since some system calls require that (unshare
 * of user namespaces, setns). So has a fork's child until it allocates. Then each starts its own background thread. */
#include "contract.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>

/* Without allocating. */
static int threads(void)
{
    static char text[4096];
    int fd = open("/proc/self/status", O_RDONLY);
    CHECK(fd >= 0 && read(fd, text, sizeof text - 1) > 0 && close(fd) == 0);
    const char *line = strstr(text, "\nThreads:");
    CHECK(line);
    return atoi(line + 9);
}

static void alone(void)
{
    CHECK(threads() == 1);
    CHECK(unshare(CLONE_NEWUSER) == 0 || errno != EINVAL); /* it may be forbidden for other reasons */
}

static void gets_thread(void)
{
    for (int i = 0; i < 3000 && threads() == 1; i++) {
        for (int k = 0; k < 200; k++)
            free(kept(malloc(1000 + (size_t)(i + k) % 50 * 1000)));
        sleep_ms(1);
    }
    CHECK(threads() == 2);
}

int main(void)
{
    for (int i = 0; i < 1000; i++)
        CHECK(kept(malloc(1000)));
    alone();
    for (int i = 0; i < 3000; i++)
        CHECK(kept(malloc(1000)));
    gets_thread();
    for (int round = 0; round < 5; round++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            alone();
            gets_thread();
            _exit(0);
        }
        int status;
        CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    return 0;
}
