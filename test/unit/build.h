/* How tests build the core on the fake port. A test defines its own constants before this. */
#ifndef GLEBE_TEST_BUILD_H
#define GLEBE_TEST_BUILD_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define GB_PORT_FAKE 1
#define GB_PLACE_LOG2 28 /* the fake host has little address space */
#define GB_PLACE_MOST_LOG2 31
#define GB_AWAY_MOST 64
#define GB_MOVED_MOST 64
#ifndef GB_TRIM_FROM
#define GB_TRIM_FROM 0 /* tests have little memory */
#endif
#define GB_SORTS_FROM 1
#ifndef GB_WARM_BYTES
#define GB_WARM_BYTES 0 /* a block that was freed is free: warm_test.c and the models have warm ones */
#endif
#define GB_MARK_STACK 8 /* nor deep graphs */
#define GB_PROBED() ((void)fixture_probes++)
extern unsigned long fixture_probes; /* steps in hash tables */

#endif
