/* fork. In the child the heaps of all other threads are dead. Their blocks stay valid and can be freed. The forking
 * thread holds all locks across the fork, so the child finds the lists and the common heaps consistent. */
#include "retain.h"

/* If a fork handler forks again, the inner calls take and drop no lock. */
void gb_fork_prepare(void)
{
    gb_heaps_lock();
    gb_lock_fork(true);
}

void gb_fork_parent(void)
{
    gb_lock_fork(false);
    gb_heaps_unlock();
}

void gb_fork_child(void)
{
    if (GB_SAFE)
        gb_the.process = gb_port_process();
    for (glebe_heap *heap = NULL; (heap = gb_heap_next(heap));)
        if (heap->kind == GB_HEAP_THREAD && heap != gb_self && heap != gb_thread_left) {
            heap->kind = GB_HEAP_DEAD;
            gb_the.heaps_dead = true;
        }
    gb_background_forked();
#if GB_SAMPLES
    gb_ask_forked();
    gb_port_stack_forked();
#endif
    gb_fork_parent();
    for (glebe_heap *heap = NULL; (heap = gb_heap_next(heap));)
        if (heap->kind == GB_HEAP_DEAD)
            gb_warm_inherit(heap);
}
