/* Every interleaving of a few threads that run the real source. engine.c explains how.
 *
 *     cases_*.c          what to run: a setup, two to four thread bodies, what must hold at the end
 *     engine.c           which thread runs next, and which orders have been seen
 *     races.c            which plain accesses are ordered by the atomics between them
 *     hooks.c            what the compiler calls for each access: __tsan_read8, __tsan_atomic64_exchange, ...
 *     host.c             port, locks, snapshot of the heap; names of addresses
 *     subject            a script: writes the source to run, unchanged or with the bugs of planted.py
 *     engine_test.c      toys with known answers, and every order against the reduced ones
 *     protocols_test.c   every case on the unchanged source
 *     planted_test.c     every planted bug is found */
#ifndef IL_ENGINE_H
#define IL_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { IL_THREADS = 4, IL_STEPS = 2000 };

/* What a step does to its object. Two steps on one object are dependent unless both are reads. IL_VANISH ends all other
 * threads, so every step of another thread depends on it. */
enum il_op { IL_READ, IL_WRITE, IL_UPDATE, IL_TAKE, IL_TRY, IL_DROP, IL_WAIT, IL_RESUME, IL_WAKE, IL_VANISH };

/* Memory order of a step, as far as it matters: acquires what others released, releases. */
enum il_order { IL_RELAXED = 0, IL_ACQUIRE = 1, IL_RELEASE = 2, IL_BOTH = 3 };

typedef struct il_case {
    const char *name, *title;
    void (*setup)(void); /* runs once, without scheduling; each execution starts from the state that it leaves */
    void (*threads[IL_THREADS])(void);
    void (*step)(void); /* after every step; may be NULL */
    void (*final)(void); /* after all threads have ended */
    int failures; /* how many weak compare-and-swaps may fail spuriously in one execution */
    bool is_long; /* for `make test-long` only */
    uint8_t daemons; /* set of threads that need not end: they may sleep when the others have ended */
} il_case;

typedef struct il_result {
    uint64_t executions, pruned, steps; /* pruned: left as soon as they were known to repeat another */
    uint32_t longest;
    uint64_t states, digest; /* different states at the end, if il_state defines states; their sum */
    bool begun; /* the setup succeeded */
    bool complete; /* all orders were run; else the limit or a failure stopped it */
    char failure[512]; /* empty: none */
} il_result;

/* For the engine's own test: whether to reduce, or to run all orders, even those that only swap independent steps; and
 * the state at the end. */
extern bool il_reduce;
extern uint64_t (*il_state)(void);

/* Runs a case in all orders, or until one fails. `trace`: print the failing schedule. */
il_result il_explore(const il_case *c, int failures, uint64_t limit, bool trace);

/* ---- for hooks.c and host.c ---- */
extern bool il_active; /* a thread of a case runs; else accesses are not traced */
uint32_t il_thread(void);
/* The calling thread announces this step; returns when it is its turn. */
void il_before(const volatile void *object, enum il_op op);
/* The step is done; `op` is what it turned out to be (a failed compare-and-swap is a read). */
void il_after(const volatile void *object, enum il_op op, enum il_order order, const void *pc);
/* One of `n` outcomes of the current step; the engine tries each. 0 if there is no choice left. */
int il_choose(int n);
/* Blocks the thread until il_unblock, for gb_port_wait. Between il_before and il_after of an IL_WAIT. */
void il_block(const volatile void *object);
void il_unblock(const volatile void *object);
/* A step: all other threads vanish, as in the child of a fork. */
void il_vanish(void);
/* For the scheduler: must a thread's IL_TAKE of this object wait? */
bool host_lock_held(const volatile void *object);

_Noreturn void il_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define IL_CHECK(condition, ...) \
    do \
        if (!(condition)) \
            il_fail(__VA_ARGS__); \
    while (0)

/* ---- races.c ---- */
void races_reset(void);
void races_access(uint32_t thread, uintptr_t address, size_t bytes, bool write, bool atomic, const void *pc);
void races_sync(uint32_t thread, uintptr_t object, enum il_op op, enum il_order order);
void races_vanish(uint32_t thread); /* nothing that other threads did races with this thread from now on */

/* ---- host.c ---- */
void host_start(void); /* before the first setup of a case */
void host_save(void);
void host_restore(void);
void host_leave(uint32_t thread); /* saves and restores thread-local variables */
void host_enter(uint32_t thread);
void hooks_reset(void); /* hooks.c: called before each execution */
/* Source line of a code address; `slot`: which of two buffers. */
const char *host_line(const void *pc, int slot);
void host_name(char *out, size_t bytes, const volatile void *address);
bool host_is_private(uintptr_t address); /* thread-local: no races there */

#endif
