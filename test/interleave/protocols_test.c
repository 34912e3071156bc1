/* Every case on the unchanged source.
 *
 *     protocols [-l] [-part=K/N] [case...]
 *                                    -part: every N-th case, from the K-th on, counted from 0
 *                                    -l, or GLEBE_INTERLEAVE=long: the long cases too, and one more spurious failure
 *                                    GLEBE_INTERLEAVE=short: the first orders of each case
 *
 * Prints the number of orders of each case, and the schedule of a failure. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cases.h"

static const il_case *const all_cases[] = ALL_CASES;

enum { SHORT_LIMIT = 5000, QUICK_LIMIT = 400000, LONG_LIMIT = 2000000 }; /* orders of one case */

static bool is_wanted(const char *name, int count, char **names)
{
    bool named = false;
    for (int i = 0; i < count; i++) {
        if (names[i][0] == '-')
            continue;
        named = true;
        if (strcmp(names[i], name) == 0)
            return true;
    }
    return !named;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    const char *environment = getenv("GLEBE_INTERLEAVE");
    bool is_long = environment && strcmp(environment, "long") == 0;
    bool is_short = environment && strcmp(environment, "short") == 0;
    unsigned part = 0, parts = 1, number = 0;
    int failed = 0, run = 0;
    uint64_t executions = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 1; i < argc; i++) {
        is_long = is_long || strcmp(argv[i], "-l") == 0;
        sscanf(argv[i], "-part=%u/%u", &part, &parts);
    }
    printf("  %-12s %10s %10s %6s %8s  %s\n", "case", "orders", "repeats", "steps", "seconds", "bounds");
    for (size_t set = 0; set < sizeof all_cases / sizeof *all_cases; set++)
        for (const il_case *c = all_cases[set]; c->name; c++) {
            if (!is_wanted(c->name, argc - 1, argv + 1) || (c->is_long && !is_long)
                || number++ % parts != part)
                continue;
            double start = seconds();
            int failures = c->failures + is_long;
            il_result r = il_explore(c, failures, is_long ? LONG_LIMIT : is_short ? SHORT_LIMIT : QUICK_LIMIT, true);
            run++;
            executions += r.executions;
            printf("  %-12s %10llu %10llu %6u %8.2f  %d spurious%s   %s\n", c->name, (unsigned long long)r.executions,
                (unsigned long long)r.pruned, r.longest, seconds() - start, failures,
                r.complete || r.failure[0] ? "" : ", CUT OFF", c->title);
            if (r.failure[0]) {
                failed++;
                printf("FAILED: %s: %s\n", c->name, r.failure);
            } else if (!r.complete && !is_long && !is_short) { /* a complete case must see all orders */
                failed++;
                printf("FAILED: %s: has more orders than a quick run allows; make it smaller, or LONG\n", c->name);
            }
        }
    printf("%d cases, %llu orders, %d failed; no bound on preemptions\n", run, (unsigned long long)executions, failed);
    return failed > 0 || run == 0;
}
