/* Threads start and end: each reclaims an earlier thread's heap, works with blocks that others handed on, and leaves
 * some behind. Heaps must not pile up. */
#include "stress.h"

enum { SHELF = 2000, STEPS = 300 };
static pthread_mutex_t shelf_lock = PTHREAD_MUTEX_INITIALIZER;
static stress_block shelf[SHELF];
static uint64_t started;

static void *churn_run(void *unused)
{
    pthread_mutex_lock(&shelf_lock);
    uint64_t state = stress_seed * 41 + started++;
    pthread_mutex_unlock(&shelf_lock);
    stress_block own[40] = {{NULL, 0, 0}};
    for (int i = 0; i < STEPS; i++) {
        size_t k = stress_below(&state, 40);
        stress_drop(&own[k]);
        own[k] = stress_make(&state);
    }
    for (int i = 0; i < 40; i++) { /* swap for a block that another thread left */
        size_t k = stress_below(&state, SHELF);
        pthread_mutex_lock(&shelf_lock);
        stress_block theirs = shelf[k];
        shelf[k] = own[i];
        pthread_mutex_unlock(&shelf_lock);
        stress_drop(&theirs);
    }
    return unused;
}

int main(int count, char **words)
{
    stress_start(count, words, 40, 4);
    for (int round = 0; round < stress_rounds; round++) {
        stress_run(churn_run);
        if (round % 8 == 0)
            stress_check();
        if (round % 13 == 0)
            glebe_trim(NULL);
    }
    glebe_stats s;
    glebe_stats_read(&s);
    REQUIRE(s.heaps <= (uint64_t)stress_threads + 4);
    for (int i = 0; i < SHELF; i++)
        stress_drop(&shelf[i]);
    stress_end();
    return 0;
}
