/* Takes all memory in blocks of argv[1] KiB, and prints how much that was; then frees it and does it again. */
#include "contract.h"

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    size_t bytes = (size_t)atoi(argv[1]) << 10;
    enum { MOST = 1 << 20 };
    static void *blocks[MOST];
    for (int round = 0; round < 3; round++) {
        size_t n = 0;
        while (n < MOST && n * bytes < (size_t)4 << 30 && (blocks[n] = malloc(bytes)) != NULL)
            *(char *)blocks[n++] = 1;
        printf("%zu\n", n * bytes >> 20);
        fflush(stdout);
        for (size_t i = 0; i < n; i++)
            free(blocks[i]);
    }
    return 0;
}
