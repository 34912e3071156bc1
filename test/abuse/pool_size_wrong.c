/* An object of a pool freed with a larger size: reused with that size, it would overlap its neighbour.
 *
 * default, secure: undetected
 * audit: glebe: glebe_pool_free(ADDRESS): size 4 is wrong: the object has 3 units */
#include "abuse.h"

int main(void)
{
    glebe_pool *pool = glebe_pool_create(NULL, 8, 4, 1 << 20, 0);
    glebe_pool_free(pool, wrong(glebe_pool_alloc(pool, 3)), 4);
    return abuse_end();
}
