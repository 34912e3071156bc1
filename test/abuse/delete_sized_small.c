/* operator delete with a size that the small block cannot hold: its type differs from that of new.
 *
 * default: served
 * secure, audit: glebe: operator delete(ADDRESS): size 65 is wrong: the block has 64 bytes */
#include "abuse.h"

extern void delete_sized(void *, size_t) __asm__("_ZdlPvm");

int main(void)
{
    void *block = wrong(malloc(SMALL));
    delete_sized(block, 65);
    return abuse_end();
}
