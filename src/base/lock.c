/* A futex mutex: one compare-and-swap to take, one exchange to drop, sleep only under contention. Word: 0 free, 1
 * held, 2 held and a thread may sleep. The C library's mutex would not do: the child of a fork must simply drop this
 * one, and the fake port must see every wait. */
#include "base.h"

enum { LOCK_SPINS = 40 };

/* Not 0 while this thread forks: it holds every lock from the first fork handler to the last. Other handlers run in
 * between on this very thread, and may allocate: for them each lock counts as taken. They may fork too, so this is a
 * count. */
static GB_TLS uint32_t lock_forking;

void gb_lock_fork(bool begins)
{
    lock_forking += begins ? 1 : UINT32_MAX;
}

bool gb_lock_forking(void)
{
    return lock_forking != 0;
}

bool gb_lock_try(gb_lock *lock)
{
    uint32_t free = 0;
    return GB_UNLIKELY(lock_forking != 0)
        || atomic_compare_exchange_strong_explicit(&lock->word, &free, 1, memory_order_acquire, memory_order_relaxed);
}

void gb_lock_take(gb_lock *lock)
{
    if (GB_LIKELY(gb_lock_try(lock)))
        return;
    for (int i = 0; i < LOCK_SPINS; i++)
        if (gb_load_relaxed(&lock->word) == 0 && gb_lock_try(lock))
            return;
    while (gb_swap(&lock->word, 2) != 0 && !gb_port_alone())
        gb_port_wait(&lock->word, 2, UINT32_MAX);
}

void gb_lock_drop(gb_lock *lock)
{
    if (GB_UNLIKELY(lock_forking != 0))
        return;
    if (GB_UNLIKELY(gb_swap(&lock->word, 0) == 2))
        gb_port_wake(&lock->word);
}
