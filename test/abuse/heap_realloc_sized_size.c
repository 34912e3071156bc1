/* glebe_heap_realloc_sized with an old size that the block cannot hold: so many bytes would be copied.
 *
 * default: served
 * secure, audit: glebe: glebe_heap_realloc_sized(ADDRESS): size 65 is wrong: the block has 64 bytes */
#include "abuse.h"

int main(void)
{
    void *block = wrong(glebe_heap_malloc(NULL, SMALL));
    if (glebe_heap_realloc_sized(NULL, block, 65, 1000))
        return abuse_end();
    if (errno != EINVAL)
        return 2;
    return abuse_end();
}
