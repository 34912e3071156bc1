/* Threads that run to their end when they are made: a module without shared memory has one. Nobody can be waited
 * for. */
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
