/* free_sized of a huge block with a size that it cannot hold.
 *
 * all: glebe: free_sized(ADDRESS): size 3002369 is wrong: the block has 3002368 bytes */
#include "abuse.h"

int main(void)
{
    void *block = wrong(malloc(HUGE_));
    free_sized(block, 3002369);
    free(block);
    return abuse_end();
}
