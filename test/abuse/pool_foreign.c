/* An object of one pool freed into another.
 *
 * all: glebe: glebe_pool_free(ADDRESS): address is not from this pool */
#include "abuse.h"

int main(void)
{
    glebe_pool *nodes = glebe_pool_create(NULL, 8, 12, 1 << 20, 0), *tokens = glebe_pool_create(NULL, 8, 1, 1 << 20, 0);
    glebe_pool_free(nodes, wrong(glebe_pool_alloc(tokens, 1)), 1);
    return abuse_end();
}
