/* free_sized of a block of no bytes with a size.
 *
 * all: glebe: free_sized(ADDRESS): size 1 is wrong: the block has 0 bytes */
#include "abuse.h"

int main(void)
{
    void *block = wrong(malloc(0));
    free_sized(block, 1);
    free(block);
    return abuse_end();
}
