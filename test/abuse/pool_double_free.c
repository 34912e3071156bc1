/* An object of a pool freed twice.
 *
 * default, secure: undetected
 * audit: glebe: glebe_pool_free(ADDRESS): double free: the object of 3 units here is free already */
#include "abuse.h"

int main(void)
{
    glebe_pool *pool = glebe_pool_create(NULL, 8, 4, 1 << 20, 0);
    void *object = glebe_pool_alloc(pool, 3);
    glebe_pool_free(pool, object, 3);
    glebe_pool_free(pool, wrong(object), 3);
    return abuse_end();
}
