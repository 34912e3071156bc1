/* Four threads at once each create argv[1] heaps, with a block in every eighth, and destroy them all. Prints the MiB
 * resident at the peak and at the end. */
#include "contract.h"

#include <glebe.h>
#include <pthread.h>

enum { THREADS = 4 };

static int count;
static pthread_barrier_t made;

static void *run(void *nothing)
{
    glebe_heap **heaps = malloc((size_t)count * sizeof *heaps);
    CHECK(heaps);
    for (int i = 0; i < count; i++) {
        CHECK((heaps[i] = glebe_heap_create(0)));
        if (i % 8 == 0)
            CHECK(glebe_heap_malloc(heaps[i], 100));
    }
    pthread_barrier_wait(&made);
    pthread_barrier_wait(&made);
    for (int i = 0; i < count; i++)
        glebe_heap_destroy(heaps[i]);
    free(heaps);
    return nothing;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    count = atoi(argv[1]);
    pthread_t threads[THREADS];
    size_t most = 0;
    CHECK(pthread_barrier_init(&made, NULL, THREADS + 1) == 0);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < THREADS; i++)
            CHECK(pthread_create(&threads[i], NULL, run, NULL) == 0);
        pthread_barrier_wait(&made);
        most = resident_bytes();
        pthread_barrier_wait(&made);
        for (int i = 0; i < THREADS; i++)
            CHECK(pthread_join(threads[i], NULL) == 0);
    }
    glebe_trim(NULL);
    printf("%zu %zu\n", most >> 20, resident_bytes() >> 20);
    return glebe_check(NULL, 2, NULL, NULL) != 0;
}
