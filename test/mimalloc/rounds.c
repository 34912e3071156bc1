/* Deletes heaps while one of their blocks is in use, and then frees that block: the remaining memory has a bound.
 * argv: threads, rounds of each. Prints the number of heaps at the end, and the MiB that became resident. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../include/glebe.h"
#include "mi.h"

static int rounds;

static size_t resident_mib(void)
{
    static char text[128];
    size_t total = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || !fgets(text, sizeof text, file) || sscanf(text, "%zu %zu", &total, &resident) != 2)
        exit(3);
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE) >> 20;
}

static void *run(void *nothing)
{
    for (int i = 0; i < rounds; i++) {
        mi_heap_t *heap = mi_heap_new();
        char *block = heap ? mi_heap_malloc(heap, 24 + (size_t)(i % 7) * 800) : NULL;
        if (!block)
            exit(1);
        *block = 1;
        mi_heap_delete(heap);
        mi_free(block);
    }
    return nothing;
}

int main(int argc, char **argv)
{
    enum { MOST = 16 };
    pthread_t threads[MOST];
    int count = argc == 3 ? atoi(argv[1]) : 0;
    if (count < 1 || count > MOST)
        return 2;
    rounds = atoi(argv[2]);
    size_t before = resident_mib();
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, run, NULL) != 0)
            return 3;
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    glebe_stats stats;
    glebe_stats_read(&stats);
    printf("%d %llu %zu\n", glebe_check(NULL, 2, NULL, NULL) != 0, (unsigned long long)stats.heaps,
        resident_mib() - before);
    return 0;
}
