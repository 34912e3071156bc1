/* Under RLIMIT_AS the program starts, and takes blocks of `argv[2]` KiB until NULL and ENOMEM. It gets at least
 * `argv[1]` per cent of the limit, frees the blocks, and gets as much again. */
#include "contract.h"

#include <sys/resource.h>

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY);
    size_t bytes = (size_t)atoi(argv[2]) << 10, wanted = (size_t)limit.rlim_cur / 100 * (size_t)atoi(argv[1]);
    enum { MOST = 1 << 20 };
    static void *blocks[MOST];
    for (int round = 0; round < 5; round++) {
        size_t n = 0;
        while (n < MOST && (blocks[n] = malloc(bytes)) != NULL) {
            memset(blocks[n], 1, bytes < 4096 ? bytes : 4096);
            n++;
        }
        printf("round %d: %zu of %zu KiB\n", round, n * bytes >> 10, (size_t)limit.rlim_cur >> 10);
        fflush(stdout);
        CHECK(n < MOST && errno == ENOMEM && n * bytes >= wanted);
        for (size_t i = 0; i < n; i++)
            free(blocks[i]);
    }
    return 0;
}
