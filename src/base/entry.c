/* The lock of entry.h while another thread holds it.
 *
 * A thread spins briefly first, because calls under the lock are short. Then it sets bit 0 and sleeps, so that the
 * thread that leaves wakes one. Other threads may still sleep, so the woken thread takes the lock with bit 0 set.
 * The main thread of a browser may not sleep: the instruction traps there. A thread can declare by glebe_thread_wait
 * that it never sleeps; it then spins on. */
#include "entry.h"

#if GB_SHARED

enum { ENTRY_SPINS = 200 };

GB_TLS gb_thread gb_me;

void gb_enter_slow(uint32_t me)
{
    bool sleeps = gb_me.waiting == GB_WAITS_AS_BUILT ? GB_SLEEPS : gb_me.waiting == GB_WAITS_ASLEEP;
    uint32_t mine = me;
    for (uint32_t spins = 0;; spins++) {
        uint32_t word = gb_load_relaxed(&gb_the.entry.lock.word);
        if ((word & ~1u) == me) { /* only this thread stores or removes this value */
            gb_the.entry.again++;
            return;
        }
        if (word == 0) {
            if (gb_cas(&gb_the.entry.lock.word, &word, mine))
                return;
        } else if (sleeps && spins >= ENTRY_SPINS && (word & 1 || gb_cas(&gb_the.entry.lock.word, &word, word | 1))) {
            gb_port_wait(&gb_the.entry.lock.word, word | 1, UINT32_MAX);
            mine = me | 1;
        }
    }
}

GB_NOINLINE void gb_enter_grown(void)
{
    gb_port_grown(gb_the.base + (gb_peek(gb_the.slices) << GB_SLICE_LOG2));
}

void glebe_thread_wait(bool sleeps)
{
    gb_me.waiting = sleeps ? GB_WAITS_ASLEEP : GB_WAITS_AWAKE;
}

#else

void glebe_thread_wait(bool sleeps)
{
    (void)sleeps;
}

#endif
