/* operator delete with the right alignment and a size that the block cannot hold.
 *
 * default, audit: glebe: operator delete(ADDRESS): size 6145 is wrong: the block has 6144 bytes
 * secure: glebe: operator delete(ADDRESS): size 6145 is wrong: the block has 6000 bytes */
#include "abuse.h"

extern void delete_sized_aligned(void *, size_t, size_t) __asm__("_ZdlPvmSt11align_val_t");

int main(void)
{
    void *block = wrong(aligned_alloc(64, MEDIUM));
    delete_sized_aligned(block, 6145, 64);
    return abuse_end();
}
