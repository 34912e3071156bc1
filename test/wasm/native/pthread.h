/* Replaces threads: a thread runs to its end when it is created, since a module without shared memory has only one
 * thread. So no thread can wait for another. */
#ifndef PTHREAD_STANDS_IN_H
#define PTHREAD_STANDS_IN_H

#include <stdlib.h>

typedef int pthread_t;
typedef int pthread_barrier_t;
#define PTHREAD_BARRIER_SERIAL_THREAD (-1)

static inline int pthread_create(pthread_t *thread, const void *attributes, void *(*run)(void *), void *argument)
{
    (void)attributes;
    *thread = 1;
    run(argument);
    return 0;
}

static inline int pthread_join(pthread_t thread, void **result)
{
    (void)thread, (void)result;
    return 0;
}

static inline int pthread_barrier_wait(pthread_barrier_t *barrier)
{
    (void)barrier;
    abort();
}

#endif
