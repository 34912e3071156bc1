/* First-class heaps, one or more for each thread: made, filled, destroyed with all their blocks, while other threads
 * free some of them; heaps change owners between rounds. */
#include "stress.h"

enum { BLOCKS = 300, STEPS = 1500 };
static struct {
    glebe_heap *heap;
    stress_block blocks[BLOCKS];
} parts[STRESS_THREADS_MAX];
static pthread_barrier_t barrier;

static void *heaps_run(void *number)
{
    int me = (int)(intptr_t)number;
    uint64_t state = stress_seed * 59 + (uint64_t)me;
    for (int round = 0; round < stress_rounds; round++) {
        int part = (me + round) % stress_threads;
        glebe_heap *heap = parts[part].heap;
        if (!heap)
            REQUIRE((heap = parts[part].heap = glebe_heap_create(0)) != NULL);
        for (int i = 0; i < STEPS; i++) {
            stress_block *b = &parts[part].blocks[stress_below(&state, BLOCKS)];
            if (b->at) {
                stress_read(b, b->bytes);
                if (b->bytes % 3 == 0)
                    glebe_heap_free_sized(heap, b->at, b->bytes);
                else
                    glebe_heap_free(heap, b->at);
            }
            *b = (stress_block){NULL, stress_size(&state), stress_random(&state)};
            REQUIRE((b->at = glebe_heap_malloc(heap, b->bytes)) != NULL);
            stress_write(b);
        }
        stress_meet(&barrier);
        int other = (me + round + 1) % stress_threads; /* frees of another's heap: only glebe_free may do that */
        for (int i = 0; i < BLOCKS; i += 3)
            if (parts[other].blocks[i].at) {
                stress_read(&parts[other].blocks[i], parts[other].blocks[i].bytes);
                (glebe_free)(parts[other].blocks[i].at);
                parts[other].blocks[i].at = NULL;
            }
        stress_meet(&barrier);
        if (stress_below(&state, 4) == 0) {
            for (int i = 0; i < BLOCKS; i++)
                parts[part].blocks[i].at = NULL;
            glebe_heap_destroy(parts[part].heap);
            parts[part].heap = NULL;
        }
        stress_meet(&barrier);
    }
    return NULL;
}

int main(int count, char **words)
{
    stress_start(count, words, 8, 4);
    pthread_barrier_init(&barrier, NULL, (unsigned)stress_threads);
    stress_run(heaps_run);
    for (int i = 0; i < stress_threads; i++)
        glebe_heap_destroy(parts[i].heap);
    stress_end();
    return 0;
}
