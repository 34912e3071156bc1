/* free_aligned_sized with an alignment that the block does not have.
 *
 * all: glebe: free_aligned_sized(ADDRESS): alignment 65536 is wrong: the block does not have it */
#include "abuse.h"

int main(void)
{
    void *block = aligned_alloc(64, 64);
    while (((uintptr_t)block & 65535) == 0)
        block = aligned_alloc(64, 64);
    free_aligned_sized(wrong(block), 65536, 64);
    free(block);
    return abuse_end();
}
