/* Declarations that the parts of glebe_check share. */
#ifndef GB_CHECK_H
#define GB_CHECK_H

#include "debug.h"

#pragma GCC visibility push(hidden)

typedef struct gb_check {
    glebe_check_report *report;
    void *context;
    int level, broken;
    size_t purged_bytes; /* of the heap's pages that the purger took: the heap no longer counts them */
} gb_check;

void gb_check_fail(gb_check *check, int invariant, const void *address, const char *what);
/* Checks that memory is zero. `bytes` is a multiple of a word's. */
void gb_check_zero(gb_check *check, const void *memory, size_t bytes, const char *what);
/* Checks the region: chunks and extents, or slices and blocks with tags. */
void gb_check_region(gb_check *check);
/* Checks the heap's blocks that are in no page, and returns their bytes. */
size_t gb_check_big(gb_check *check, const glebe_heap *heap);
/* Checks a heap and all that it holds. */
void gb_check_heap(gb_check *check, const glebe_heap *heap);

#define CHECK(condition, invariant, address, what) \
    do \
        if (!(condition)) \
            gb_check_fail(check, invariant, (const void *)(address), what); \
    while (0)

#pragma GCC visibility pop

#endif
