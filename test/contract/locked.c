/* After mlockall(MCL_CURRENT | MCL_FUTURE) memory cannot be purged: everything works, and calloc's memory is zero
 * though nothing was purged. argv[1] "early" locks before the first block, as far as a program can. */
#include "contract.h"

#include <malloc.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
    int late = argc > 1 && strcmp(argv[1], "late") == 0;
    if (late)
        free(kept(malloc(100)));
    CHECK(mlockall(MCL_CURRENT | MCL_FUTURE) == 0);
    uint32_t state = 5;
    static unsigned char *blocks[300];
    for (int i = 0; i < 20000; i++) {
        unsigned char **slot = &blocks[chance(&state) % 300];
        free(*slot);
        size_t bytes = any_size(&state);
        if (i % 3 == 0) {
            *slot = calloc(1, bytes);
            CHECK(*slot);
            for (size_t k = 0; k < bytes; k++)
                if ((*slot)[k] != 0)
                    CHECK(!"calloc's memory is zero");
        } else
            *slot = malloc(bytes);
        if (!*slot)
            continue;
        memset(*slot, 0xee, bytes);
        if (i % 1000 == 0)
            malloc_trim(0);
    }
    size_t most = resident_bytes();
    for (int i = 0; i < 300; i++)
        free(blocks[i]);
    malloc_trim(0);
    CHECK(munlockall() == 0);
    malloc_trim(0); /* purges the memory that the system refused before */
    CHECK(resident_bytes() < most / 2);
    return 0;
}
