/* An object of a pool written to after it was freed, after its link, and then handed out again.
 *
 * default, secure: undetected
 * audit: glebe: glebe_pool_alloc(ADDRESS): free object of 3 units was written to after it was freed, 16 bytes inside */
#include "abuse.h"

int main(void)
{
    glebe_pool *pool = glebe_pool_create(NULL, 8, 4, 1 << 20, 0);
    uint64_t *object = glebe_pool_alloc(pool, 3);
    glebe_pool_free(pool, object, 3);
    object = wrong(object);
    object[2] = 1;
    glebe_pool_alloc(pool, 3);
    return abuse_end();
}
