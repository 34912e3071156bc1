/* Random frees across threads: all threads put blocks into one table and take them from it, so that mostly a thread
 * frees or resizes a block of another. */
#include "stress.h"

enum { SLOTS = 997, STEPS = 4000 };
static struct {
    pthread_mutex_t lock;
    stress_block block;
} table[SLOTS];
static pthread_barrier_t barrier;

static void *cross_run(void *number)
{
    uint64_t state = stress_seed * 31 + (uint64_t)(intptr_t)number;
    for (int round = 0; round < stress_rounds; round++) {
        for (int i = 0; i < STEPS; i++) {
            size_t k = stress_below(&state, SLOTS);
            stress_block mine = {NULL, 0, 0};
            if (stress_below(&state, 3))
                mine = stress_make(&state);
            pthread_mutex_lock(&table[k].lock);
            stress_block theirs = table[k].block;
            table[k].block = mine;
            pthread_mutex_unlock(&table[k].lock);
            if (theirs.at && stress_below(&state, 4) == 0)
                stress_resize(&theirs, &state);
            stress_drop(&theirs);
        }
        if (stress_below(&state, 8) == 0)
            glebe_trim(NULL);
        stress_meet(&barrier);
    }
    return NULL;
}

int main(int count, char **words)
{
    stress_start(count, words, 6, 4);
    for (int i = 0; i < SLOTS; i++)
        pthread_mutex_init(&table[i].lock, NULL);
    pthread_barrier_init(&barrier, NULL, (unsigned)stress_threads);
    stress_run(cross_run);
    for (int i = 0; i < SLOTS; i++)
        stress_drop(&table[i].block);
    stress_end();
    return 0;
}
