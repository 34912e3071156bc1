/* free_sized of a small block with a size that it cannot hold.
 *
 * all: glebe: free_sized(ADDRESS): size 65 is wrong: the block has 64 bytes */
#include "abuse.h"

int main(void)
{
    void *block = wrong(malloc(SMALL));
    free_sized(block, 65);
    free(block);
    return abuse_end();
}
