/* operator delete[] with a size that the huge block cannot hold.
 *
 * default: served
 * secure, audit: glebe: operator delete(ADDRESS): size 3002369 is wrong: the block has 3002368 bytes */
#include "abuse.h"

extern void delete_array_sized(void *, size_t) __asm__("_ZdaPvm");

int main(void)
{
    void *block = wrong(malloc(HUGE_));
    delete_array_sized(block, 3002369);
    return abuse_end();
}
