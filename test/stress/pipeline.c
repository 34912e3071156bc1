/* Producers and consumers: half of the threads only allocate, the other half only free, through queues, so that every
 * free is remote. The producers must reuse their pages, or memory grows without bound. */
#include "stress.h"

enum { DEPTH = 512, STEPS = 6000 };
static struct {
    pthread_mutex_t lock;
    pthread_cond_t room, any;
    stress_block blocks[DEPTH];
    size_t first, count;
} queues[STRESS_THREADS_MAX];

static void *pipeline_run(void *number)
{
    intptr_t me = (intptr_t)number;
    uint64_t state = stress_seed * 37 + (uint64_t)me;
    bool makes = me % 2 == 0;
    for (long i = 0; i < (long)stress_rounds * STEPS; i++) {
        /* each queue has one producer and one consumer, so that neither waits for a thread that has ended */
        size_t q = (size_t)me / 2;
        stress_block b = {NULL, 0, 0};
        if (makes)
            b = stress_make(&state);
        pthread_mutex_lock(&queues[q].lock);
        if (makes) {
            while (queues[q].count == DEPTH)
                pthread_cond_wait(&queues[q].room, &queues[q].lock);
            queues[q].blocks[(queues[q].first + queues[q].count++) % DEPTH] = b;
            pthread_cond_signal(&queues[q].any);
        } else {
            while (queues[q].count == 0)
                pthread_cond_wait(&queues[q].any, &queues[q].lock);
            b = queues[q].blocks[queues[q].first];
            queues[q].first = (queues[q].first + 1) % DEPTH;
            queues[q].count--;
            pthread_cond_signal(&queues[q].room);
        }
        pthread_mutex_unlock(&queues[q].lock);
        if (!makes)
            stress_drop(&b);
    }
    return NULL;
}

int main(int count, char **words)
{
    stress_start(count, words, 4, 4);
    stress_threads += stress_threads % 2;
    for (int i = 0; i < STRESS_THREADS_MAX; i++) {
        pthread_mutex_init(&queues[i].lock, NULL);
        pthread_cond_init(&queues[i].room, NULL);
        pthread_cond_init(&queues[i].any, NULL);
    }
    stress_run(pipeline_run);
    stress_end();
    return 0;
}
