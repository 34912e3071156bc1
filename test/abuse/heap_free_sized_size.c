/* glebe_heap_free_sized with a size that the block cannot hold.
 *
 * default: served
 * secure, audit: glebe: glebe_heap_free_sized(ADDRESS): size 65 is wrong: the block has 64 bytes */
#include "abuse.h"

int main(void)
{
    void *block = wrong(glebe_heap_malloc(NULL, SMALL));
    glebe_heap_free_sized(NULL, block, 65);
    return abuse_end();
}
