/* A heap profile starts and stops while threads allocate: a thread may be in the midst of a refill. */
#include "stress.h"

#include <errno.h>

enum { STEPS = 20000, KEPT = 60 };
static _Atomic int running;

static void *profile_run(void *unused)
{
    static _Atomic uint64_t started;
    uint64_t state = stress_seed * 43 + started++;
    stress_block own[KEPT] = {{NULL, 0, 0}};
    for (int i = 0; i < STEPS; i++) {
        size_t k = stress_below(&state, KEPT);
        stress_drop(&own[k]);
        own[k] = stress_make(&state);
    }
    for (int k = 0; k < KEPT; k++)
        stress_drop(&own[k]);
    running--;
    return unused;
}

static void *profile_switch(void *unused)
{
    static const size_t means[] = {1, 100, 1000, 4096, 100000};
    for (unsigned i = 0; running > 0; i++) {
        int error = glebe_profile_start(means[i % 5]);
        REQUIRE(error == 0 || error == ENOSYS);
        glebe_profile_stop();
    }
    return unused;
}

int main(int count, char **words)
{
    stress_start(count, words, 20, 4);
    for (int round = 0; round < stress_rounds; round++) {
        pthread_t switcher;
        running = stress_threads;
        REQUIRE(pthread_create(&switcher, NULL, profile_switch, NULL) == 0);
        stress_run(profile_run);
        pthread_join(switcher, NULL);
        stress_check();
    }
    glebe_stats s; /* not stress_end: the profile's records stay in use */
    glebe_trim(NULL);
    stress_check();
    glebe_stats_read(&s);
    REQUIRE(s.errors == 0 && s.out_of_memory == 0);
    return 0;
}
