/* free_sized of a large block with a size that it cannot hold.
 *
 * default, audit: glebe: free_sized(ADDRESS): size 114689 is wrong: the block has 114688 bytes
 * secure: glebe: free_sized(ADDRESS): size 114689 is wrong: the block has 102400 bytes */
#include "abuse.h"

int main(void)
{
    void *block = wrong(malloc(LARGE));
    free_sized(block, 114689);
    free(block);
    return abuse_end();
}
