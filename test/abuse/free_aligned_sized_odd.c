/* free_aligned_sized with an alignment that is no power of two.
 *
 * all: glebe: free_aligned_sized(ADDRESS): alignment 48 is wrong: the block does not have it */
#include "abuse.h"

int main(void)
{
    void *block = aligned_alloc(64, 64);
    free_aligned_sized(wrong(block), 48, 64);
    free(block);
    return abuse_end();
}
