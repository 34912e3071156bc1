/* What the two files here share. */
#ifndef MIMALLOC_H
#define MIMALLOC_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "../../src/core.h"

#ifndef MIMALLOC_LINE
#define MIMALLOC_LINE 3
#endif
#define EXPORT __attribute__((visibility("default"), used))

typedef struct glebe_heap mi_heap_t;

#endif
