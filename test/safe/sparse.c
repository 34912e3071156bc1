/* Blocks of which the program writes one byte each are freed, and again: their other OS pages stay without memory.
 *
 *     sparse BYTES BLOCKS     prints the resident KB at the first peak, and at the end */
#include "../contract/contract.h"

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    size_t bytes = (size_t)atol(argv[1]);
    int blocks = atoi(argv[2]);
    char **block = calloc((size_t)blocks, sizeof *block);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < blocks; i++) {
            block[i] = malloc(bytes);
            block[i][0] = 1;
        }
        if (round == 0)
            printf("%zu ", resident_bytes() / 1024);
        for (int i = 0; i < blocks; i++)
            free(block[i]);
    }
    printf("%zu\n", resident_bytes() / 1024);
    free(block);
    return 0;
}
