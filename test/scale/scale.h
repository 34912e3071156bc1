/* Shared by the cases of test/scale: allocates and frees as many blocks as a server has, timed, and measures the memory
 * that remains.
 *
 * A case is a plain user of malloc, linked with no allocator. Its own records are in mappings that it touches before
 * the first block, so that resident sizes are those of the blocks. Each block has a stamp with its number at its start
 * and, unless the case is about untouched memory, at its end. A wrong stamp is a lost byte, and counts as broken.
 *
 *    ask, give       one request: by the steady clock and by the CPU clock of its thread
 *    set_take, _drop many blocks: each request by the steady clock, sixteen together by the CPU clock, which costs a
 *                    system call
 *    say             one figure; main.c prints all of them as one line of JSON */
#ifndef TEST_SCALE_H
#define TEST_SCALE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Blocks of one kind; their sizes follow from `seed` and their number. */
struct set {
    char **at; /* NULL: refused, or freed */
    size_t count, from_bytes, to_bytes, alignment; /* alignment 0: malloc */
    uint64_t seed;
    bool sparse; /* stamp the start only */
};

struct set set_of(size_t count, size_t from_bytes, size_t to_bytes);
size_t set_bytes(const struct set *set, size_t i);
void set_take(struct set *set, size_t first, size_t end);
size_t set_live(const struct set *set); /* number of live blocks, at least 1 */
void set_check(const struct set *set);
void set_drop(struct set *set, size_t first, size_t end, bool (*chosen)(size_t i));
void set_end(struct set *set);
bool all(size_t i);
bool three_in_four(size_t i);
bool one_in_ten(size_t i);

void *ask(size_t bytes);
void *ask_aligned(size_t alignment, size_t bytes);
void give(void *block);
void stamp(char *block, size_t bytes, uint64_t which, bool sparse);
void check_stamp(const char *block, size_t bytes, uint64_t which, bool sparse);
void refuse(size_t count);
bool over_cap(void);
void start_longest(void); /* a step of the case begins */
void merge_longest(void); /* at the end of each thread */
double most_cpu_us(void); /* of the requests of this step */
size_t over_a_millisecond(void); /* of CPU time: requests of sets in this step, or groups of them */

uint64_t mixed(uint64_t value);
uint64_t steady_ns(void);
uint64_t process_cpu_ns(void);
void nap(unsigned ms);
void light_work(size_t ms);
void *outside(size_t bytes); /* zeroed and resident, from no allocator */
void outside_end(void *at, size_t bytes);
_Noreturn void die(const char *what);

size_t status_kb(const char *field);  /* of /proc/self/status, as "VmRSS:" */
size_t resident_kb(void);             /* less the resident size at `begin` */
size_t peak_kb(void);
size_t mappings(void);                /* now; `mappings_seen` also keeps the maximum */
void begin(void);                     /* the case's own records exist: counting starts */
void say(const char *name, double figure);
void say_resident(const char *name);

/* One function for each case; main.c has the list. Arguments are numbers. */
typedef void scale_case(const size_t *argument);
scale_case blocks_case, holes_case, ranges_case, replace_case, pieces_case;
scale_case wakes_case, idle_case;
scale_case ended_case, asleep_case, live_threads_case, seldom_case, exchange_case, passing_case;
scale_case heaps_case, churn_case;
scale_case limit_case;

#endif
