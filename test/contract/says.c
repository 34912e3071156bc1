/* The ways in which a program may treat stderr before it ends. glebe's requested output at exit must go to the original
 * stderr, once per process, and never to a file that happens to have stderr's number. */
#include "contract.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *file; /* that takes the number 2 */

static void shut(void)
{
    fclose(stdout);
    fclose(stderr);
}

static void shut_and_reuse(void)
{
    close(STDERR_FILENO);
    CHECK(open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600) == STDERR_FILENO);
}

static void close_all(int from)
{
    for (int i = from; i < 65536; i++)
        close(i);
}

int main(int count, char **words)
{
    const char *how = count > 1 ? words[1] : "";
    file = count > 2 ? words[2] : "/dev/null";
    free(malloc(1000));
    if (strcmp(how, "closes") == 0) /* as coreutils do */
        atexit(shut);
    else if (strcmp(how, "reuses") == 0)
        atexit(shut_and_reuse);
    else if (strcmp(how, "closefrom") == 0) /* all except the standard three */
        close_all(3);
    else if (strcmp(how, "closeall") == 0) {
        close_all(0);
        for (int i = 0; i < 1100; i++) /* and takes every free number */
            (void)!open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    } else if (strcmp(how, "forks") == 0) {
        pid_t child = fork();
        if (child == 0) {
            fclose(stderr);
            exit(0);
        }
        CHECK(waitpid(child, NULL, 0) == child);
        printf("%d %d\n", (int)getpid(), (int)child);
    } else if (strcmp(how, "opens") == 0) { /* the program gets the usual numbers, and exec passes on nothing new */
        for (int i = 0; i < 20; i++)
            printf("%d ", open("/dev/null", O_RDONLY | O_CLOEXEC));
        fflush(stdout);
        unsetenv("LD_PRELOAD");
        execlp("ls", "ls", "-m", "/proc/self/fd", (char *)NULL);
        CHECK(!"exec");
    } else if (strcmp(how, "daemon") == 0) {
        pid_t child = fork();
        if (child == 0) {
            CHECK(setsid() > 0);
            int null = open("/dev/null", O_RDWR);
            for (int i = 0; i < 3; i++)
                dup2(null, i);
            exit(0);
        }
        CHECK(waitpid(child, NULL, 0) == child);
        printf("%d %d\n", (int)getpid(), (int)child);
    }
    return 0;
}
