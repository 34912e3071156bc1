/* A signal handler may call glebe_usable_size and glebe_version, whatever it interrupts. A timer fires while the
 * program allocates and frees; the handler passes blocks that stay in use. */
#include "contract.h"

#include <glebe.h>
#include <signal.h>
#include <sys/time.h>

static void *blocks[4];
static const size_t sizes[4] = {100, 5000, 100000, 3000000};
static volatile sig_atomic_t wrong, fired;

static void look(int signal)
{
    (void)signal;
    int saved = errno;
    for (int i = 0; i < 4; i++)
        if (glebe_usable_size(blocks[i]) < sizes[i])
            wrong = 1;
    if (glebe_version() != GLEBE_VERSION || errno != saved)
        wrong = 1;
    fired++;
}

int main(void)
{
    for (int i = 0; i < 4; i++)
        CHECK((blocks[i] = glebe_malloc(sizes[i])));
    struct sigaction action = {.sa_handler = look, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval timer = {{0, 200}, {0, 200}};
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    uint32_t state = 1;
    static void *mine[500];
    for (long i = 0; fired < 1000 || i < 200000; i++) {
        void **slot = &mine[chance(&state) % 500];
        glebe_free(*slot);
        *slot = glebe_malloc(any_size(&state));
        CHECK(*slot && !wrong);
    }
    return 0;
}
