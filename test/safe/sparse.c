/* Blocks of which the program writes one byte each are freed, and again: their other OS pages stay without memory.
 *
 *     sparse BYTES BLOCKS     prints the resident KB at the first peak, and at the end */
#include <stdio.h>
#include <stdlib.h>

static long resident(void)
{
    long all, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &all, &pages) != 2)
        exit(2);
    fclose(file);
    return pages * 4;
}

int main(int argc, char **argv)
{
    size_t bytes = (size_t)atol(argv[argc - 2]);
    int blocks = atoi(argv[argc - 1]);
    char **block = calloc((size_t)blocks, sizeof *block);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < blocks; i++) {
            block[i] = malloc(bytes);
            block[i][0] = 1;
        }
        if (round == 0)
            printf("%ld ", resident());
        for (int i = 0; i < blocks; i++)
            free(block[i]);
    }
    printf("%ld\n", resident());
    free(block);
    return 0;
}
