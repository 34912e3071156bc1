/* operator delete with an alignment that the block does not have.
 *
 * all: glebe: operator delete(ADDRESS): alignment 1048576 is wrong: the block does not have it */
#include "abuse.h"

extern void delete_aligned(void *, size_t) __asm__("_ZdlPvSt11align_val_t");

static void *odd(size_t alignment)
{
    void *block = malloc(SMALL);
    while (((uintptr_t)block & (alignment - 1)) == 0)
        block = malloc(SMALL);
    return block;
}

int main(void)
{
    void *block = wrong(odd(1048576));
    delete_aligned(block, 1048576);
    return abuse_end();
}
