/* The base of a stack that is not above the frame of the collector's marker: there is nothing to mark between them.
 *
 * all: glebe: glebe_gc_mark_stack(ADDRESS): not above the caller's frame */
#include "abuse.h"

int main(void)
{
    glebe_gc *gc = glebe_gc_create(0);
    glebe_gc_begin(gc);
    glebe_gc_mark_stack(gc, wrong((void *)64));
    glebe_gc_finish(gc);
    glebe_gc_destroy(gc);
    return abuse_end();
}
