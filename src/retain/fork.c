/* What fork leaves: in the child the heaps of the other threads are dead. Their blocks live on, and can be freed. */
#include "retain.h"

/* Within a fork whose handlers fork, these calls take and drop nothing. */
void gb_fork_prepare(void)
{
    gb_lock_take(&gb_the.abandoned.lock);
    gb_lock_take(&gb_the.lock);
    gb_lock_fork(true);
}

void gb_fork_parent(void)
{
    gb_lock_fork(false);
    gb_lock_drop(&gb_the.lock);
    gb_lock_drop(&gb_the.abandoned.lock);
}

void gb_fork_child(void)
{
    for (glebe_heap *heap = NULL; (heap = gb_heap_next(heap));)
        if (heap->kind == GB_HEAP_THREAD && heap != gb_self && heap != gb_thread_left) {
            heap->kind = GB_HEAP_DEAD;
            gb_the.heaps_dead = true;
        }
    gb_background_forked();
    gb_fork_parent();
}
