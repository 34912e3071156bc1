/* The program's part where memory is about to end: the callback of glebe_on_pressure. retain.c says when it is called:
 *
 *     group of processes (cgroup)             used / limit      done about it
 *     |............................|.......|...|                looked at by ticks, at most every 200 ms, every 20 from
 *     0                           85      95  100 %             85 % on (every 5 s while there is no limit: one may be
 *                                  |       |                    set at any time)
 *                                  |       +-- what the heap and abandoned ones keep goes too; then the callback
 *                                  +---------- all that is free goes back at once, due or not
 *
 *     the option `limit`          a request that would pass it though nothing is kept: the callback, then once more
 *
 * The callback may do what it likes, but it comes in the middle of a malloc: that heap's tables are at rest, while its
 * callers hold on to some of what they said. So the thread gets another heap for the callback: it allocates from there,
 * and its frees go the way of another thread's. When the callback returns that other heap is abandoned. A thread in its
 * callback is not called again. Other threads may be, for nothing waits for them.
 *
 * 1. No lock is held when the callback is called, and none while fork's handlers run.
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
