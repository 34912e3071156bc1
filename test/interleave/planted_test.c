/* The case named for a planted bug (planted.py) must find it. The same case must pass without the bug, as
 * protocols_test.c shows. Prints the number of orders that it took, and the first words of the failure. */
#include <stdio.h>
#include <stdlib.h>

#include "cases.h"

extern int planted;
extern const char *const planted_names[], *const planted_cases[];

static const il_case *const all_cases[] = ALL_CASES;

static const il_case *find(const char *name)
{
    for (size_t set = 0; set < sizeof all_cases / sizeof *all_cases; set++)
        for (const il_case *c = all_cases[set]; c->name; c++)
            if (strcmp(c->name, name) == 0)
                return c;
    return NULL;
}

int main(int argc, char **argv)
{
    enum { LIMIT = 200000 };
    int missed = 0, only = argc > 1 ? atoi(argv[1]) : 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 0; planted_names[i]; i++) {
        const il_case *c = find(planted_cases[i]);
        planted = i + 1;
        if (only && only != planted)
            continue;
        il_result r = {0};
        if (c)
            r = il_explore(c, c->failures, LIMIT, only != 0);
        bool found = r.begun && r.failure[0];
        printf("  %2d  %-58s %-12s %7llu  %.100s\n", i + 1, planted_names[i], planted_cases[i],
            (unsigned long long)(r.executions + r.pruned + 1), found ? r.failure : "NOT FOUND");
        missed += !found;
    }
    printf("%d planted bugs were not found\n", missed);
    return missed > 0;
}
