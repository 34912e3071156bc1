/* free_aligned_sized with the right alignment and a size that the block cannot hold.
 *
 * default, audit: glebe: free_aligned_sized(ADDRESS): size 4097 is wrong: the block has 4096 bytes
 * secure: glebe: free_aligned_sized(ADDRESS): size 4097 is wrong: the block has 4000 bytes */
#include "abuse.h"

int main(void)
{
    void *block = wrong(aligned_alloc(4096, 4000));
    free_aligned_sized(block, 4096, 4097);
    free(block);
    return abuse_end();
}
