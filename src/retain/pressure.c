/* The callback by which the program frees memory before it runs out (glebe_on_pressure). retain.c decides when to call
 * it:
 *
 *     group of processes (cgroup)             used / limit      what glebe does
 *     |............................|.......|...|                ticks look at most every 200 ms, and every 20 ms from
 *     0                           85      95  100 %             85 % on (every 5 s while there is no limit: one may be
 *                                  |       |                    set at any time)
 *                                  |       +-- also purges memory that this heap, common and abandoned heaps keep; then
 *                                  |           the callback
 *                                  +---------- purges all free memory, due or not
 *
 *     the option `limit`          if a request would exceed it though nothing is retained: the callback, then a retry
 *
 * The callback may do anything, but it runs inside a malloc. The tables of that malloc's heap are consistent then, but
 * the functions that called the callback still rely on values that they read before. So the thread uses another heap
 * during the callback: it allocates from there, and its frees are remote frees. When the callback returns, that other
 * heap is abandoned. A thread in the callback does not enter it again. Several threads may be in it at once, because
 * none waits for another.
 *
 * 1. No lock is held when the callback is called. It is not called while fork's handlers run.
 * 2. errno is kept. */

#include "retain.h"

static GB_TLS bool pressure_telling; /* this thread is in the callback */

void glebe_on_pressure(glebe_pressure *callback, void *context)
{
    gb_lock_take(&gb_the.lock);
    gb_the.pressure.callback = callback;
    gb_the.pressure.context = context;
    gb_lock_drop(&gb_the.lock);
}

bool gb_pressure_tell(uint64_t used, uint64_t limit)
{
    if (pressure_telling || gb_lock_forking())
        return false;
    gb_lock_take(&gb_the.lock);
    glebe_pressure *callback = gb_the.pressure.callback;
    void *context = gb_the.pressure.context;
    gb_lock_drop(&gb_the.lock);
    if (!callback)
        return false;
    int saved = errno;
    glebe_heap *self = gb_thread_leave();
    pressure_telling = true;
    callback(context, used, limit);
    pressure_telling = false;
    gb_thread_return(self);
    errno = saved;
    return true;
}
