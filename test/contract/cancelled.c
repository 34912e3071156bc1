/* A cancelled thread (pthread_cancel) runs on to its own next cancellation point: no function of the malloc family is
 * one.
 *
 * cancelled stats      malloc_stats prints everything
 * cancelled wrong      the report of a misuse is complete, and the heap works on (GLEBE_ON_ERROR=count)
 * cancelled works      a heap that is large enough to check the limit of its cgroup */
#include "contract.h"

#include <malloc.h>
#include <pthread.h>

static const char *what;
static int state; /* the thread's progress */

static void *work(void *ignored)
{
    (void)ignored;
    pthread_cancel(pthread_self());
    if (strcmp(what, "stats") == 0)
        malloc_stats();
    else if (strcmp(what, "wrong") == 0)
        for (int i = 0; i < 3; i++)
            free((char *)kept(&state) + 1);
    else
        for (int i = 0; i < 3000; i++)
            CHECK(kept(malloc(100000)));
    state = 1;
    pthread_testcancel();
    state = 2;
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    what = argv[1];
    pthread_t thread;
    void *result;
    CHECK(pthread_create(&thread, NULL, work, NULL) == 0 && pthread_join(thread, &result) == 0);
    CHECK(state == 1 && result == PTHREAD_CANCELED);
    for (int i = 0; i < 1000; i++)
        free(kept(malloc((size_t)i * 100)));
    return 0;
}
