/* How tests build the core on the fake port. A test defines its own constants before this. The core is compiled for
 * each set of them, so those that the code only reads are variables here (FIXTURE_FOREIGN in fixture.h and so on). */
#ifndef GLEBE_TEST_BUILD_H
#define GLEBE_TEST_BUILD_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GB_PORT_FAKE 1
#define GB_PLACE_LOG2 28 /* the fake host has little address space */
#define GB_PLACE_MOST_LOG2 31
#define GB_AWAY_MOST 64
#define GB_MOVED_MOST 64
#define GB_SORTS_FROM 1
#define GB_MARK_STACK 8 /* tests have no deep graphs */
#define GB_PROBED() ((void)fixture_probes++)
extern unsigned long fixture_probes; /* steps in hash tables */

extern struct fixture_built {
    size_t trim_from, warm_bytes;
    uint32_t few_heaps;
    bool foreign;
} fixture_built;
#define GB_TRIM_FROM fixture_built.trim_from
#define GB_WARM_BYTES fixture_built.warm_bytes
#define GB_FEW_HEAPS fixture_built.few_heaps
#define GB_FOREIGN fixture_built.foreign

#endif
