/* The test's view of the fake host: all that a test may set, plan and read. fake.c describes the host's behaviour. */
#ifndef GB_FAKE_H
#define GB_FAKE_H

#include <setjmp.h>

#include "port.h"

enum { FAKE_PAGE_LOG2 = 12, FAKE_PIECE_LOG2 = 20, FAKE_PRINTED_BYTES = 8192 };
#define FAKE_PAGE_BYTES ((size_t)1 << FAKE_PAGE_LOG2)
#define FAKE_ALIGNMENT ((size_t)1 << 22)
/* 2 GiB of chunks, as much of extents, and their tables; 32 bits propose 1.75 GiB */
#define FAKE_BYTES ((size_t)(sizeof(void *) == 8 ? 0x114000000ull : 0x76000000ull))

/* The calls that may fail, or meet an unusual case. */
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

/* Offset of the second place that gb_port_propose returns. */
#define FAKE_SECOND_PLACE ((size_t)1 << 26)

enum gb_fake_state { FAKE_NONE, FAKE_COMMITTED, FAKE_PROTECTED };

/* All that a test may set or read. Zero is a sane start, except for the fields that gb_fake_reset sets. */
typedef struct gb_fake {
    uint32_t now_ms;
    uint64_t chance; /* the random generator's state: a seed */
    size_t page_bytes; /* of the OS: 4 KiB, or a multiple */
    size_t address_bytes; /* SIZE_MAX: plenty; else the core commits without reserving */
    size_t memory_bytes; /* commits beyond it fail */
    uint64_t pressure_limit, pressure_used; /* of the group of processes; limit 0: none */
    struct { uint64_t limit, used; } limits[2]; /* of the process: address space, data; limit 0: none */
    uint64_t pressure_looks; /* calls of gb_port_pressure */
    char *const *environment; /* NULL-terminated "NAME=value", or NULL */
    const char *program; /* the program's name; NULL: none */
    const char *file; /* the only file that gb_port_append finds; its text goes to `printed`; NULL: none */
    gb_port_fault *fault; /* what gb_port_faults was given */
    bool guards_fail; /* gb_port_guard refuses */
    const uintptr_t *stack; /* what gb_port_stack finds, and its length */
    uint32_t stack_length;
    uint32_t profiles; /* how often a profile was finished; its text goes to `profile` */
    uint64_t sampled, sampled_bytes, sampled_weight; /* by the probes: blocks now, and sums of all so far */
    int profile_error; /* of gb_port_put; 0: none */
    char *profile; /* NULL: profiles are dropped */
    size_t profile_room, profile_bytes;
    bool malloc_elsewhere;
    bool stderr_kept; /* gb_port_say without it is a mistake of the core */

    /* the plan: calls of the kinds in `fail_calls` (bits) are counted together; `fail_count` of them fail, from the
     * fail_at-th on (1 is the first; 0: none) */
    uint32_t fail_calls;
    uint64_t fail_at, fail_count, fail_seen;
    uintptr_t taken_from, taken_to; /* mapped by other code: unreserved commits there find it taken */

    uintptr_t told_end; /* the last argument of gb_port_grown */
    /* linear memory: its end; bytes that other code takes before the next growth */
    size_t grown_bytes, foreign_bytes;
    bool moves_lose; /* a move that fails loses its target */
    bool sparse; /* gb_port_resident finds no memory that was touched */
    bool exact; /* a purge really drops every page, so that gb_fake_resident_bytes is exact */

    uint64_t calls[GB_FAKE_CALLS]; /* of each kind, failed or not */
    uint64_t failed; /* calls that the plan made fail */
    size_t committed_bytes;
    uint64_t purged_bytes; /* purged or decommitted, not lazily */
    uint64_t lazy_bytes; /* purged lazily */
    bool never_lazy; /* the host purges at once when asked to purge lazily */
    bool huge_slow; /* huge pages arrive slowly */
    uint32_t huge_looks; /* calls of gb_port_huge_page_quick */
    uint64_t moved_bytes, protected_bytes, huge_bytes;
    uint32_t armed; /* calls of gb_port_thread_arm */
    bool alone; /* the result of gb_port_alone */
    const void *theirs; /* a block of another allocator */
    size_t theirs_bytes; /* its bytes */
    _Atomic uint32_t waits, wakes; /* atomic, as the lock's test has real threads */
    void (*thread)(void); /* the function that gb_port_thread_start was to run */
    void (*on_wait)(_Atomic uint32_t *word, uint32_t expected, uint32_t ms); /* called in place of sleeping */
    jmp_buf *on_abort; /* where gb_port_abort jumps to; NULL: it aborts */

    char printed[FAKE_PRINTED_BYTES];
    size_t printed_bytes;
} gb_fake;

extern gb_fake fake;
extern uintptr_t fake_start;

/* Resets everything as at the start of a process. Two runs with the same seed are equal. */
void gb_fake_reset(uint64_t seed);
/* Makes a plan: `count` calls fail, from the `at`-th call of the kinds in `calls` (bits) from now. */
void gb_fake_fail(uint32_t calls, uint64_t at, uint64_t count);
/* Returns whether every byte of this range is in `state`. */
bool gb_fake_is(uintptr_t at, size_t bytes, enum gb_fake_state state);
/* Returns the bytes of the piece that were touched and not purged since; SIZE_MAX if the OS does not say. */
size_t gb_fake_resident_bytes(void);

#endif
