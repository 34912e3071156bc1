/* Hundreds of millions of bytes of small blocks, in a program that mostly waits: what a request costs when it wakes,
 * and what stays resident. */
#include "scale.h"
#include <stdlib.h>

enum { WAKES = 256 };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* CPU time of this many requests of small sizes, each also timed alone. */
static double wake(size_t requests, uint64_t salt)
{
    uint64_t from = process_cpu_ns();
    for (size_t i = 0; i < requests; i++) {
        char *block = ask(16 + mixed(salt + i) % 400);
        if (block)
            *block = 1;
        give(block);
    }
    return (double)(process_cpu_ns() - from) / 1e6;
}

/* The cost of the clocks themselves: the least of some wakes before there is a block. */
static double wake_floor(size_t requests)
{
    double least = wake(requests, 0);
    for (int i = 0; i < 8; i++) {
        double again = wake(requests, 0);
        least = again < least ? again : least;
    }
    return least;
}

/* Wakes, each after some idle time. Each of the first two thirds makes `early` requests, enough for the allocator to
 * look at all its memory; reports the longest. Of the last third, when the state is steady again, reports the median,
 * and its longest request. */
static void wakes(size_t count, unsigned ms, size_t early, size_t requests, double floor)
{
    static double cost[WAKES];
    count = count < WAKES ? count : WAKES;
    size_t settled = count - (count + 2) / 3;
    double before = 0;
    for (size_t i = 0; i < count; i++) {
        if (i == settled) {
            before = most_cpu_us();
            start_longest();
        }
        nap(ms);
        size_t asked = i < settled ? early : requests;
        cost[i] = wake(asked, (i + 1) * asked) - floor;
    }
    double last = most_cpu_us();
    say("wake_most_us", last > before ? last : before);
    qsort(cost + settled, count - settled, sizeof *cost, by_value);
    double middle = cost[settled + (count - settled) / 2];
    say("wake_settled_ms", middle > 0 ? middle : 0);
    say("wake_settled_us", last);
}

static bool nineteen_in_twenty(size_t i) { return mixed(i) % 20 != 0; }

/* The i-th of 2^bits numbers in a random order: each step can be undone. */
static size_t shuffled(size_t i, unsigned bits)
{
    const size_t mask = ((size_t)1 << bits) - 1;
    for (int round = 0; round < 3; round++) {
        i = i * 0x9e3779b97f4a7c15u & mask;
        i ^= i >> (bits + 1) / 2;
    }
    return i;
}

/* Frees in random order, so that a page's free list leads through its memory at random. */
static void drop_at_random(struct set *set)
{
    unsigned bits = 1;
    while (set->count >> bits)
        bits++;
    for (size_t i = 0; i >> bits == 0; i++) {
        size_t at = shuffled(i, bits);
        if (at < set->count)
            set_drop(set, at, at + 1, nineteen_in_twenty);
    }
}

/* MIB BYTES WAKES MS EARLY REQUESTS RANDOM */
void wakes_case(const size_t *argument)
{
    struct set set = set_of((argument[0] << 20) / argument[1], argument[1], argument[1]);
    begin();
    double floor = wake_floor(argument[5]);
    start_longest();
    set_take(&set, 0, set.count);
    say("fill_most_us", most_cpu_us());
    if (argument[6])
        drop_at_random(&set);
    else
        set_drop(&set, 0, set.count, three_in_four);
    say("busy_most_us", most_cpu_us());
    say("busy_over", (double)over_a_millisecond());
    start_longest();
    wakes(argument[2], (unsigned)argument[3], argument[4], argument[5], floor);
    say_resident("live_kb");
    mappings();
    set_check(&set);
    start_longest();
    set_end(&set);
    say("end_most_us", most_cpu_us());
}

static bool stretch(size_t i) { return mixed(i >> 14) % 2; }

/* MIB WAKES REQUESTS. Stretches have some MiB, so that nearly all freed memory can be purged. */
void idle_case(const size_t *argument)
{
    enum { FROM = 32, TO = 480 };
    struct set set = set_of((argument[0] << 20) / ((FROM + TO) / 2), FROM, TO);
    struct set more = set_of(set.count / 2, FROM, TO);
    begin();
    double floor = wake_floor(argument[2]), live = 0;
    start_longest();
    set_take(&set, 0, set.count);
    say_resident("full_kb");
    set_drop(&set, 0, set.count, stretch);
    for (size_t i = 0; i < set.count; i++)
        if (set.at[i])
            live += (double)set_bytes(&set, i) / 1024;
    say("busy_most_us", most_cpu_us());
    say("busy_over", (double)over_a_millisecond());
    start_longest();
    wakes(argument[1], 700, argument[2], argument[2], floor);
    say_resident("live_kb");
    say("of_live", (double)resident_kb() / live);
    set_check(&set);
    start_longest();
    set_take(&more, 0, more.count);
    say("fill_most_us", most_cpu_us());
    say_resident("filled_kb");
    mappings();
    start_longest();
    set_check(&set);
    set_end(&more);
    set_end(&set);
    say("end_most_us", most_cpu_us());
}
