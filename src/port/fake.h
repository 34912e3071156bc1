/* What a test may set, plan and look at of the fake host: fake.c says how it behaves. */
#ifndef GB_FAKE_H
#define GB_FAKE_H

#include <setjmp.h>

#include "port.h"

enum { FAKE_PAGE_LOG2 = 12, FAKE_PIECE_LOG2 = 20, FAKE_PRINTED_BYTES = 8192 };
#define FAKE_PAGE_BYTES ((size_t)1 << FAKE_PAGE_LOG2)
#define FAKE_ALIGNMENT ((size_t)1 << 22)
/* 2 GiB of chunks, as much of slots, and their tables; 32 bits propose 1.75 GiB */
#define FAKE_BYTES ((size_t)(sizeof(void *) == 8 ? 0x114000000ull : 0x76000000ull))

/* The calls that may fail, or find something unusual. */
enum gb_fake_call {
    GB_FAKE_RESERVE,
    GB_FAKE_PROPOSE,
    GB_FAKE_COMMIT,
    GB_FAKE_PURGE,
    GB_FAKE_MOVE,
    GB_FAKE_DECOMMIT,
    GB_FAKE_GROW,
    GB_FAKE_THREAD_START,
    GB_FAKE_CALLS,
};

/* The second place that is proposed. */
#define FAKE_SECOND_PLACE ((size_t)1 << 26)

enum gb_fake_state { FAKE_NONE, FAKE_COMMITTED, FAKE_PROTECTED };

/* All that a test may set or look at. Zero is a sane start, but for what gb_fake_reset sets. */
typedef struct gb_fake {
    uint32_t now_ms;
    uint64_t chance; /* the generator's state: a seed */
    size_t page_bytes; /* as the OS's: 4 KiB, or a multiple */
    size_t address_bytes; /* SIZE_MAX: plenty; else the core commits without reserving */
    size_t memory_bytes; /* commits beyond it fail */
    uint64_t pressure_limit, pressure_used; /* of the group of processes; limit 0: none */
    uint64_t pressure_looks; /* how often that was asked */
    char *const *environment; /* NULL-terminated "NAME=value", or NULL */
    const char *program; /* NULL: none */
    const char *file; /* the one that can be added to, in `printed`; NULL: none */
    bool stderr_kept; /* what is said where it was not is the core's fault */

    /* the plan: calls of the kinds in `fail_calls` (bits) are counted together, and from the fail_at-th (1 is the
     * first; 0 is none) `fail_count` of them fail */
    uint32_t fail_calls;
    uint64_t fail_at, fail_count, fail_seen;
    uintptr_t taken_from, taken_to; /* what somebody else has mapped: commits there, unreserved, find it taken */

    uintptr_t told_end; /* by gb_port_grown */
    /* where memory is linear: its end; what somebody else takes before it grows next */
    size_t grown_bytes, foreign_bytes;
    bool moves_lose; /* a move that fails loses its target */
    bool sparse; /* nothing that is looked at was touched */
    bool exact; /* what is given back leaves the process, however little it is: gb_fake_resident_bytes is true then */

    uint64_t calls[GB_FAKE_CALLS]; /* of each kind, failed or not */
    uint64_t failed; /* by the plan */
    size_t committed_bytes;
    uint64_t purged_bytes; /* given back, by a purge or a decommit */
    uint64_t lazy_bytes; /* given back lazily */
    bool never_lazy; /* the host gives back at once what the core gives back lazily */
    bool huge_slow; /* huge pages are slow to come */
    uint32_t huge_looks; /* how often that was asked */
    uint64_t moved_bytes, protected_bytes, huge_bytes;
    uint32_t armed; /* calls of gb_port_thread_arm */
    bool alone; /* all other threads were ended */
    const void *theirs; /* a block of another allocator, */
    size_t theirs_bytes; /* of so many bytes */
    _Atomic uint32_t waits, wakes; /* the lock's test has real threads */
    void (*thread)(void); /* what gb_port_thread_start was to run */
    void (*on_wait)(_Atomic uint32_t *word, uint32_t expected, uint32_t ms); /* in place of sleeping */
    jmp_buf *on_abort; /* where gb_port_abort goes; NULL: it aborts */

    char printed[FAKE_PRINTED_BYTES];
    size_t printed_bytes;
} gb_fake;

extern gb_fake fake;
extern uintptr_t fake_start;

/* Everything as at the start of a process; the seed is the only thing that differs between two runs. */
void gb_fake_reset(uint64_t seed);
/* Plans: `count` calls fail, from the `at`-th call of the kinds in `calls` (bits) from now. */
void gb_fake_fail(uint32_t calls, uint64_t at, uint64_t count);
/* Is every byte of this range in `state`? */
bool gb_fake_is(uintptr_t at, size_t bytes, enum gb_fake_state state);
/* Bytes of the piece that were touched and not given back since. SIZE_MAX where the OS does not tell. */
size_t gb_fake_resident_bytes(void);

#endif
