/* Frees 40 MB of large and huge blocks, and of medium blocks in pages that stay in use, lets purge_ms pass, and prints
 * this process's LazyFree in KiB. Then it uses all of the memory again: calloc's memory must be zero, whatever the
 * system did with it. */
#include "contract.h"

#include <sys/mman.h>

enum { COUNT = 100 };

static long lazy_kib(void)
{
    static char line[200];
    long kib = -1;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file && fgets(line, sizeof line, file))
        (void)!sscanf(line, "LazyFree: %ld", &kib);
    if (file)
        fclose(file);
    return kib;
}

int main(void)
{
    static const size_t sizes[] = {3000, 60000, 200000, 300000, 9000000};
    static unsigned char *blocks[5][COUNT];
    for (int round = 0; round < 3; round++) {
        for (int s = 0; s < 5; s++)
            for (int i = 0; i < COUNT / (s == 4 ? COUNT : 1); i++) {
                unsigned char *p = blocks[s][i] = kept(calloc(1, sizes[s]));
                CHECK(p);
                for (size_t k = 0; k < sizes[s]; k++)
                    CHECK(p[k] == 0);
                memset(p, 0xdd, sizes[s]);
            }
        for (int s = 0; s < 5; s++)
            for (int i = s < 2 ? 1 : 0; i < COUNT / (s == 4 ? COUNT : 1); i++)
                free(blocks[s][i]);
        for (int i = 0; i < 60; i++) {
            sleep_ms(5);
            for (int k = 0; k < 40; k++)
                free(kept(malloc(100 + (size_t)k * 5000)));
        }
        if (round == 0)
            printf("%ld\n", lazy_kib());
        if (round == 1) { /* the system takes it now */
            unsigned char *wanted = blocks[3][0];
            (void)!madvise((void *)((uintptr_t)wanted & ~(uintptr_t)4095), 200000, 21 /* MADV_PAGEOUT */);
        }
    }
    return 0;
}
