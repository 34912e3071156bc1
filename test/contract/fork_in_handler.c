/* A process with one thread: a signal interrupts malloc or free at any point, and the handler forks. Parent and child
 * both continue the interrupted call, and then make more calls. argv[1]: how often. */
#include "contract.h"

#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

enum { BLOCKS = 64 };

static void *blocks[BLOCKS];
static volatile sig_atomic_t children, left_in_child = -1;
static volatile sig_atomic_t within; /* how many signals interrupted malloc or free */
static volatile sig_atomic_t working;

static void forks(int signal)
{
    (void)signal;
    int saved = errno;
    if (left_in_child >= 0)
        return;
    pid_t pid = fork();
    if (pid == 0) {
        left_in_child = 200; /* then return to the interrupted call */
        return;
    }
    int status;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
    children++;
    within += working;
    errno = saved;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    struct sigaction action = {.sa_handler = forks, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    uint32_t state = 1;
    for (int armed = 0; children < atoi(argv[1]) || left_in_child >= 0;) {
        if (armed == children && left_in_child < 0) { /* arm the timer again, for a point in the next blocks */
            struct itimerval once = {{0, 0}, {0, 20 + (long)(chance(&state) % 200)}};
            CHECK(setitimer(ITIMER_REAL, &once, NULL) == 0);
            armed++;
        }
        void **slot = &blocks[chance(&state) % BLOCKS];
        size_t bytes = chance(&state) % 4 ? 70000 + chance(&state) % 100000 : any_size(&state);
        working = 1;
        free(*slot);
        *slot = malloc(bytes);
        working = 0;
        CHECK(*slot);
        *(char *)*slot = 1;
        if (left_in_child >= 0 && left_in_child-- == 0) {
            for (int i = 0; i < BLOCKS; i++)
                free(blocks[i]);
            _exit(0);
        }
    }
    CHECK(within > 0);
    return 0;
}
