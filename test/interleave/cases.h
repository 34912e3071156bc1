/* The vocabulary of cases. Thread 0 is A, 1 is B, and so on; each frees the blocks that it holds, in order or by
 * number. */
#ifndef IL_CASES_H
#define IL_CASES_H

#include "host.h"

/* Classes that keep pages small: eight 2 KiB blocks in a page of one slice, eight 4 KiB blocks in a page of two. */
enum { SMALL = 2048, MEDIUM = 4096, PAGE_BLOCKS = 8 };

extern const il_case cases_remote[], cases_medium[], cases_abandoned[], cases_lock[], cases_dead[], cases_parked[],
    cases_asleep[], cases_common[], cases_share[];
#define ALL_CASES {cases_remote, cases_medium, cases_abandoned, cases_lock, cases_dead, cases_parked, cases_asleep, \
    cases_common, cases_share}

/* A case: name, title, setup, spurious failures at most, threads. LONG: only for `make test-long`. LOOSE: not checked
 * after each step. */
#define CASE_WITH(a_step, a_long, a_name, a_title, a_setup, a_failures, ...) \
    {.name = a_name, .title = a_title, .setup = a_setup, .threads = {__VA_ARGS__}, .step = a_step, \
        .final = check_final, .failures = a_failures, .is_long = a_long}
#define CASE(...) CASE_WITH(check_step, false, __VA_ARGS__)
#define LONG(...) CASE_WITH(check_step, true, __VA_ARGS__)
#define LOOSE(...) CASE_WITH(NULL, false, __VA_ARGS__)

/* In a setup: thread t does what follows, on a heap of its own (`with_heap`) or without a heap. */
void as(uint32_t t);
void as_with_heap(uint32_t t);
/* Allocates `count` blocks for thread `to`, marked; they lie in order of address on a fresh page. */
void take_for(uint32_t to, size_t bytes, uint32_t count);
/* The calling thread frees thread t's blocks with numbers [from, to). */
void free_for(uint32_t t, uint32_t from, uint32_t to);
/* The last call of a setup: no thread does what follows. */
void as_end(void);

/* In a thread. */
void take(size_t bytes);
void take_zero(size_t bytes); /* calloc, and checks that the block is zero */
void give(uint32_t i); /* frees block number i of this thread, whose marks must be whole */
void give_all(void);

/* The page of a block. */
gb_page *page_of(const void *block);

/* For `step`: inboxes and lists are sound at any time. For `final`: every block is in one place, glebe_check finds
 * nothing, and once every owner has drained its inbox no remote free is left. */
void check_step(void);
void check_final(void);
/* Parts of it: no lock is held, and glebe_check finds nothing in common heaps; the marks of all blocks in use are
 * whole. */
void check_quiet(void);
void check_marks(void);

#endif
