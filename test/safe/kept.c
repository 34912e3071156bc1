/* Medium blocks that are freed while pointers to them are left give their memory back at a sweep, and still read as
 * zero. Prints the resident MB with the blocks in use, and after sweeps. */
#include "../contract/contract.h"

enum { BYTES = 20000, BLOCKS = 2000, CHURN = 2000000 };

int main(void)
{
    static char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        memset(blocks[i] = malloc(BYTES), 1, BYTES);
    size_t before = resident_bytes();
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    for (int i = 0; i < CHURN; i++)
        free(kept(malloc(48)));
    printf("%zu %zu\n", before >> 20, resident_bytes() >> 20);
    for (int i = 0; i < BLOCKS; i++)
        for (int k = 0; k < BYTES; k++)
            CHECK(blocks[i][k] == 0);
    return 0;
}
