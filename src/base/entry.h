/* The lock around the heap if threads share one: WebAssembly with shared memory. The slice table moves there as memory
 * grows, so no thread may look up an address while another one works. The public functions take this lock; all other
 * code stays the same.
 *
 *     {
 *         GB_ENTRY;          entered here, left wherever the function returns
 *         return gb_alloc_own(bytes);
 *     }
 *
 * The word is 0 if no thread is inside. Otherwise it is the address of the thread's own `gb_me`; bit 0 says that a
 * thread may sleep. A thread inside may enter again: public functions call each other, and call the program back
 * (markers, finalizers, the checker's report).
 *
 * With memory tags (heap/tags.c) the processor does not compare them while a thread is inside, because the core's own
 * addresses have none. A handler of a signal begins with the comparison on.
 *
 * Everywhere else GB_ENTRY does nothing: each thread has a heap of its own, or there is one thread. */
#ifndef GB_ENTRY_H
#define GB_ENTRY_H

#include "../port/port.h"
#include "../types.h"

#pragma GCC visibility push(hidden)

#define GB_ENTRY gb_entry gb_entered __attribute__((cleanup(gb_leave), unused)) = gb_enter()

typedef struct gb_entry {
    uint64_t unchecked; /* whether tags went uncompared before, as the processor has it */
} gb_entry;

#if GB_SHARED

enum gb_waiting { GB_WAITS_AS_BUILT, GB_WAITS_ASLEEP, GB_WAITS_AWAKE };

typedef struct gb_thread {
    uint32_t waiting;
} gb_thread;

extern GB_TLS gb_thread gb_me;

/* Called when a thread is inside, perhaps this one. */
GB_COLD void gb_enter_slow(uint32_t me);
/* Called with the lock: makes all memory that other threads added usable by this one. */
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

#elif GB_TAGS

/* The register TCO. Its name needs a newer assembler than compilers for older processors call. */
#define GB_TCO "S3_3_C4_C2_7"
#define GB_TCO_ON ((uint64_t)1 << 25)

GB_INLINE gb_entry gb_enter(void)
{
    gb_entry entry = {0};
    if (gb_the.tags) {
        __asm__ volatile("mrs %0, " GB_TCO : "=r"(entry.unchecked));
        __asm__ volatile("msr " GB_TCO ", %0" : : "r"(GB_TCO_ON) : "memory");
    }
    return entry;
}

GB_INLINE void gb_leave(const gb_entry *entry)
{
    if (gb_the.tags)
        __asm__ volatile("msr " GB_TCO ", %0" : : "r"(entry->unchecked) : "memory");
}

#else

GB_INLINE gb_entry gb_enter(void) { return (gb_entry){0}; }
GB_INLINE void gb_leave(const gb_entry *entry) { (void)entry; }

#endif

#pragma GCC visibility pop

#endif
