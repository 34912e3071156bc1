/* libglebe-record.so: every call of the malloc family, recorded on its way to the allocator beneath.
 *
 *     program ── malloc ──▶ libglebe-record.so ──▶ the next malloc: the C library's, or that of another preload
 *                               │
 *                               └──▶ stream.h, the thread's buffer in the file ── `glebe record` ──▶ a trace
 *
 * The library has no allocator. A call that returns a block is recorded after it, and one that frees before it; raw.h
 * says what that means for the order of threads. free(NULL) is not recorded. A realloc that frees is recorded as free.
 *
 * operators.c does the same for C++'s operators, where the allocator beneath has its own. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "record.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

struct record_next record_next;

/* dlsym may allocate before we know the next malloc. Such a block lives here and is never freed. */
static _Alignas(16) char early[16 << 10];
static _Atomic size_t early_used;

static void *early_alloc(size_t bytes)
{
    size_t rounded = (bytes + 15) & ~(size_t)15;
    size_t at = atomic_fetch_add(&early_used, rounded);
    return at + rounded <= sizeof early ? early + at : NULL;
}

static bool is_early(const void *block)
{
    return (uintptr_t)block - (uintptr_t)early < sizeof early;
}

void *record_symbol(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

static void record_find(void)
{
    static _Thread_local bool inside;
    if (inside)
        return;
    inside = true;
#define FIND(name) record_next.name = RECORD_FUNCTION(record_next_##name, record_symbol(#name))
    FIND(calloc);
    FIND(realloc);
    FIND(free);
    FIND(memalign);
    FIND(aligned_alloc);
    FIND(posix_memalign);
    FIND(valloc);
    FIND(pvalloc);
    atomic_signal_fence(memory_order_release);
    FIND(malloc);
#undef FIND
    inside = false;
}

/* Evaluates to the next function; NULL while it is being searched. */
#define NEXT(name) (record_next.malloc ? record_next.name : (record_find(), record_next.name))

void record_block_slowly(enum raw_kind kind, unsigned align_log2, const void *block, size_t bytes)
{
    struct stream *self = &stream_self;
    uint64_t *record = stream_reserve(self, 3);
    if (!record)
        return;
    record[1] = (uint64_t)(uintptr_t)block;
    record[2] = bytes;
    stream_store(record, kind, align_log2, stream_moment());
    stream_done(self);
}

void record_free_slowly(const void *block)
{
    struct stream *self = &stream_self;
    uint64_t *record = stream_reserve(self, 2);
    if (!record)
        return;
    record[1] = (uint64_t)(uintptr_t)block;
    stream_store(record, RAW_FREE, 0, stream_next_moment());
    stream_done(self);
}

static unsigned log2_of(size_t alignment)
{
    return alignment > 1 ? 63u - (unsigned)__builtin_clzll((unsigned long long)alignment) : 0;
}

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

RECORD_EXPORT void *malloc(size_t bytes)
{
    record_next_malloc *next = NEXT(malloc);
    if (!next)
        return early_alloc(bytes);
    void *block = next(bytes);
    record_block(RAW_MALLOC, 0, block, bytes);
    return block;
}

static __attribute__((noinline)) void free_slowly(void *block)
{
    record_next_free *next = NEXT(free);
    if (!block || is_early(block) || !next)
        return;
    record_free_slowly(block);
    next(block);
}

/* Most frees need no registers but those that a call may change, and end in a jump to the next free. */
RECORD_EXPORT void free(void *block)
{
    struct shared *shared = stream_shared;
    record_next_free *next = record_next.free;
    bool plain = next && block && !is_early(block);
    uint64_t *record = plain ? stream_quick(&stream_self, shared, 2) : NULL;
    if (__builtin_expect(!record, 0)) {
        free_slowly(block);
        return;
    }
    record[1] = (uint64_t)(uintptr_t)block;
    stream_store(record, RAW_FREE, 0, atomic_fetch_add_explicit(&shared->moment, 1, memory_order_acq_rel));
    next(block);
}

RECORD_EXPORT void cfree(void *block)
{
    free(block);
}

RECORD_EXPORT void free_sized(void *block, size_t bytes)
{
    (void)bytes;
    free(block);
}

RECORD_EXPORT void free_aligned_sized(void *block, size_t alignment, size_t bytes)
{
    (void)alignment;
    (void)bytes;
    free(block);
}

RECORD_EXPORT void *calloc(size_t count, size_t bytes)
{
    size_t product;
    bool overflow = __builtin_mul_overflow(count, bytes, &product);
    record_next_calloc *next = NEXT(calloc);
    if (!next)
        return overflow ? NULL : early_alloc(product); /* static memory, and never reused: zero */
    void *block = next(count, bytes);
    record_block(RAW_CALLOC, 0, block, overflow ? SIZE_MAX : product);
    return block;
}

RECORD_EXPORT void *realloc(void *old, size_t bytes)
{
    if (!old)
        return malloc(bytes);
    if (is_early(old)) {
        size_t most = (size_t)(early + sizeof early - (char *)old);
        void *block = malloc(bytes);
        return block ? memcpy(block, old, bytes < most ? bytes : most) : NULL;
    }
    record_next_realloc *next = NEXT(realloc);
    if (!next)
        return NULL;
    unsigned long moment = stream_next_moment();
    void *block = next(old, bytes);
    struct stream *self = &stream_self;
    uint64_t *record = stream_reserve(self, 5);
    if (!record)
        return block;
    record[1] = (uint64_t)(uintptr_t)old;
    if (!block && bytes == 0) { /* it was freed */
        self->cursor -= 3;
        stream_store(record, RAW_FREE, 0, moment);
    } else {
        record[2] = (uint64_t)(uintptr_t)block;
        record[3] = bytes;
        record[4] = stream_moment();
        stream_store(record, RAW_REALLOCATE, 0, moment);
    }
    stream_done(self);
    return block;
}

RECORD_EXPORT void *reallocarray(void *old, size_t count, size_t bytes)
{
    size_t product;
    if (__builtin_mul_overflow(count, bytes, &product)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(old, product);
}

RECORD_EXPORT void *memalign(size_t alignment, size_t bytes)
{
    record_next_memalign *next = NEXT(memalign);
    void *block = next ? next(alignment, bytes) : NULL;
    record_block(RAW_ALIGNED, log2_of(alignment), block, bytes);
    return block;
}

RECORD_EXPORT void *aligned_alloc(size_t alignment, size_t bytes)
{
    record_next_memalign *next = NEXT(aligned_alloc);
    void *block = next ? next(alignment, bytes) : NULL;
    record_block(RAW_ALIGNED, log2_of(alignment), block, bytes);
    return block;
}

RECORD_EXPORT int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    record_next_posix_memalign *next = NEXT(posix_memalign);
    int error = next ? next(out, alignment, bytes) : ENOMEM;
    record_block(RAW_ALIGNED, log2_of(alignment), error ? NULL : *out, bytes);
    return error;
}

RECORD_EXPORT void *valloc(size_t bytes)
{
    record_next_malloc *next = NEXT(valloc);
    void *block = next ? next(bytes) : NULL;
    record_block(RAW_ALIGNED, log2_of(page_bytes()), block, bytes);
    return block;
}

RECORD_EXPORT void *pvalloc(size_t bytes)
{
    size_t page = page_bytes();
    record_next_malloc *next = NEXT(pvalloc);
    void *block = next ? next(bytes) : NULL;
    record_block(RAW_ALIGNED, log2_of(page), block, (bytes + page - 1) & ~(page - 1));
    return block;
}

/* Some allocators bring these with a malloc that no other library sees. */
RECORD_EXPORT char *strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    void *block = malloc(bytes);
    return block ? memcpy(block, text, bytes) : NULL;
}

RECORD_EXPORT char *strndup(const char *text, size_t most)
{
    size_t length = strnlen(text, most);
    char *block = malloc(length + 1);
    if (!block)
        return NULL;
    block[length] = 0;
    return memcpy(block, text, length);
}
