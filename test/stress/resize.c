/* Realloc storms: in several threads at once, buffers grow and shrink through all kinds of block; threads hand some of
 * them on in between. */
#include "stress.h"

enum { BUFFERS = 24, STEPS = 1500 };
static pthread_mutex_t resize_lock = PTHREAD_MUTEX_INITIALIZER;
static stress_block handed[STRESS_THREADS_MAX];
static pthread_barrier_t barrier;

static void *resize_run(void *number)
{
    uint64_t state = stress_seed * 43 + (uint64_t)(intptr_t)number;
    stress_block own[BUFFERS] = {{NULL, 0, 0}};
    for (int round = 0; round < stress_rounds; round++) {
        for (int i = 0; i < STEPS; i++) {
            stress_block *b = &own[stress_below(&state, BUFFERS)];
            if (!b->at)
                *b = stress_make(&state);
            stress_resize(b, &state);
            if (stress_below(&state, 30) == 0)
                stress_drop(b);
            if (stress_below(&state, 20) == 0) {
                pthread_mutex_lock(&resize_lock);
                stress_block *slot = &handed[stress_below(&state, (size_t)stress_threads)], mine = *b;
                *b = *slot;
                *slot = mine;
                pthread_mutex_unlock(&resize_lock);
            }
        }
        stress_meet(&barrier);
    }
    for (int i = 0; i < BUFFERS; i++)
        stress_drop(&own[i]);
    return NULL;
}

int main(int count, char **words)
{
    stress_start(count, words, 4, 4);
    pthread_barrier_init(&barrier, NULL, (unsigned)stress_threads);
    stress_run(resize_run);
    for (int i = 0; i < stress_threads; i++)
        stress_drop(&handed[i]);
    stress_end();
    return 0;
}
