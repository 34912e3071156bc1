/* A collector destroyed twice.
 *
 * all: glebe: glebe_gc_destroy(ADDRESS): not a collector, or destroyed already */
#include "abuse.h"

int main(void)
{
    glebe_gc *gc = glebe_gc_create(0);
    if (!glebe_gc_alloc(gc, SMALL))
        return 2;
    glebe_gc_destroy(wrong(gc));
    glebe_gc_destroy(gc);
    return abuse_end();
}
