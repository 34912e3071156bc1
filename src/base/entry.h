/* The way into the heap where threads share it, which is WebAssembly with shared memory: there the slice table moves as
 * memory grows, so that no thread can look anything up beside another. One lock is taken at the public functions, and
 * nothing else is different.
 *
 *     {
 *         GB_ENTRY;          entered here, left wherever the function returns
 *         return gb_alloc(gb_self, bytes);
 *     }
 *
 * Word: 0 no thread is in; else the address of the thread's own `gb_me`, and bit 0: a thread may sleep. A thread that
 * is in may enter again: public functions call each other, and call the program back (a collector's marker, finalizers,
 * the checker's report).
 *
 * Everywhere else GB_ENTRY is nothing: threads have heaps of their own, or there is one thread. */
#ifndef GB_ENTRY_H
#define GB_ENTRY_H

#include "../port/port.h"
#include "../types.h"

#pragma GCC visibility push(hidden)

#define GB_ENTRY gb_entry gb_entered __attribute__((cleanup(gb_leave), unused)) = gb_enter()

typedef struct gb_entry {
    uint8_t nothing;
} gb_entry;

#if GB_SHARED

enum gb_waiting { GB_WAITS_AS_BUILT, GB_WAITS_ASLEEP, GB_WAITS_AWAKE };

typedef struct gb_thread {
    uint32_t waiting;
} gb_thread;

extern GB_TLS gb_thread gb_me;

/* A thread is in, perhaps this one. */
GB_COLD void gb_enter_slow(uint32_t me);
/* The lock is taken: makes memory usable by this thread as far as other threads let it grow. */
void gb_enter_grown(void);

GB_INLINE gb_entry gb_enter(void)
{
    uint32_t nobody = 0, me = (uint32_t)(uintptr_t)&gb_me;
    if (GB_UNLIKELY(!atomic_compare_exchange_strong_explicit(
            &gb_the.entry.lock.word, &nobody, me, memory_order_acquire, memory_order_relaxed)))
        gb_enter_slow(me);
    gb_enter_grown();
    return (gb_entry){0};
}

GB_INLINE void gb_leave(const gb_entry *entry)
{
    (void)entry;
    if (GB_UNLIKELY(gb_the.entry.again))
        gb_the.entry.again--;
    else if (GB_UNLIKELY(gb_swap(&gb_the.entry.lock.word, 0) & 1))
        gb_port_wake(&gb_the.entry.lock.word);
}

#else

GB_INLINE gb_entry gb_enter(void) { return (gb_entry){0}; }
GB_INLINE void gb_leave(const gb_entry *entry) { (void)entry; }

#endif

#pragma GCC visibility pop

#endif
