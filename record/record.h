/* What record.c and operators.c share. */
#ifndef GLEBE_RECORD_H
#define GLEBE_RECORD_H

#include "stream.h"

#define RECORD_EXPORT __attribute__((visibility("default"), used))

/* Data and functions have the same kind of address on every system with a dlsym. */
#define RECORD_FUNCTION(type, address) (((union { void *data; type *function; }){address}).function)

#pragma GCC visibility push(hidden)

typedef void *record_next_malloc(size_t bytes);
typedef void *record_next_calloc(size_t count, size_t bytes);
typedef void *record_next_realloc(void *old, size_t bytes);
typedef void record_next_free(void *block);
typedef void *record_next_memalign(size_t alignment, size_t bytes);
typedef int record_next_posix_memalign(void **out, size_t alignment, size_t bytes);
typedef record_next_memalign record_next_aligned_alloc;
typedef record_next_malloc record_next_valloc, record_next_pvalloc;

/* The allocator beneath. `malloc` is stored last: if it is there, so are the others. */
struct record_next {
    record_next_malloc *malloc, *valloc, *pvalloc;
    record_next_calloc *calloc;
    record_next_realloc *realloc;
    record_next_free *free;
    record_next_memalign *memalign, *aligned_alloc;
    record_next_posix_memalign *posix_memalign;
};
extern struct record_next record_next;

/* The next definition of a name behind this library; NULL if there is none. */
void *record_symbol(const char *name);
void record_block_slowly(enum raw_kind kind, unsigned align_log2, const void *block, size_t bytes);
void record_free_slowly(const void *block);

static inline void record_block(enum raw_kind kind, unsigned align_log2, const void *block, size_t bytes)
{
    struct shared *shared = stream_shared;
    uint64_t *record = stream_quick(&stream_self, shared, 3);
    if (__builtin_expect(!record, 0)) {
        record_block_slowly(kind, align_log2, block, bytes);
        return;
    }
    record[1] = (uint64_t)(uintptr_t)block;
    record[2] = bytes;
    stream_store(record, kind, align_log2, atomic_load_explicit(&shared->moment, memory_order_acquire));
}

static inline void record_free(const void *block)
{
    struct shared *shared = stream_shared;
    uint64_t *record = stream_quick(&stream_self, shared, 2);
    if (__builtin_expect(!record, 0)) {
        record_free_slowly(block);
        return;
    }
    record[1] = (uint64_t)(uintptr_t)block;
    stream_store(record, RAW_FREE, 0, atomic_fetch_add_explicit(&shared->moment, 1, memory_order_acq_rel));
}

#pragma GCC visibility pop

#endif
