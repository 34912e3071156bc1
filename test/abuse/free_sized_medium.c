/* free_sized of a medium block with a size that it cannot hold.
 *
 * default, audit: glebe: free_sized(ADDRESS): size 6145 is wrong: the block has 6144 bytes
 * secure: glebe: free_sized(ADDRESS): size 6145 is wrong: the block has 6000 bytes */
#include "abuse.h"

int main(void)
{
    void *block = wrong(malloc(MEDIUM));
    free_sized(block, 6145);
    free(block);
    return abuse_end();
}
