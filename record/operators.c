/* C++'s operators new and delete, for allocators beneath that define their own and never call malloc.
 *
 * Each operator calls the next one. If that arrived at our malloc, which moved the stream's cursor, the block is
 * recorded already; otherwise we record it here. The first `new` of a process decides for all: `direct` says that the
 * operators beneath do not arrive at malloc, so a delete must be recorded here, before the block is free.
 *
 * The next operator may be out of sight of this library: a program without C++ opens a plugin, whose C++ library is in
 * no global scope. Then we ask that library by its name, and without one we serve from malloc. An exception passes
 * through these functions as it is (-funwind-tables); nothing is recorded of a call that throws. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include "record.h"

#if UINTPTR_MAX == UINT32_MAX && !defined(__LP64__)
#define SIZE "j" /* how size_t is mangled */
#else
#define SIZE "m"
#endif

typedef void *operator_new(size_t bytes);
typedef void *operator_new_tagged(size_t bytes, const void *tag);
typedef void *operator_new_aligned(size_t bytes, size_t alignment);
typedef void *operator_new_aligned_tagged(size_t bytes, size_t alignment, const void *tag);
typedef void operator_delete(void *block);
typedef void operator_delete_more(void *block, size_t a);
typedef void operator_delete_most(void *block, size_t a, size_t b);

static _Atomic bool direct;

static void *operator_next(const char *name)
{
    void *next = record_symbol(name);
    for (int i = 0; !next && i < 2; i++) {
        void *library = dlopen(i ? "libc++.so.1" : "libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
        next = library ? dlsym(library, name) : NULL;
        if (library)
            dlclose(library);
    }
    return next;
}

/* The next operator of a name, searched once. */
#define FOUND(type, name)                                                                                              \
    static _Atomic(type *) found;                                                                                      \
    type *next = atomic_load_explicit(&found, memory_order_relaxed);                                                   \
    if (!next)                                                                                                         \
    atomic_store_explicit(&found, next = RECORD_FUNCTION(type, operator_next(name)), memory_order_relaxed)

static void *operator_out_of_memory(void)
{
    static const char line[] = "glebe: out of memory in operator new of a C++ library that record cannot see\n";
    if (write(2, line, sizeof line - 1) < 0)
        abort();
    abort();
}

static void *operator_served(void *block)
{
    return block ? block : operator_out_of_memory();
}

static void *operator_noted(const uint64_t *before, void *block, size_t alignment, size_t bytes)
{
    if (block && stream_self.cursor == before) {
        atomic_store_explicit(&direct, true, memory_order_relaxed);
        unsigned log2 = alignment > 1 ? 63u - (unsigned)__builtin_clzll((unsigned long long)alignment) : 0;
        record_block(log2 ? RAW_ALIGNED : RAW_MALLOC, log2, block, bytes);
    }
    return block;
}

static void operator_freed(const void *block)
{
    if (block && atomic_load_explicit(&direct, memory_order_relaxed))
        record_free(block);
}

#define NEW(symbol, name)                                                                                              \
    RECORD_EXPORT void *symbol(size_t bytes) __asm__(name);                                                            \
    void *symbol(size_t bytes)                                                                                         \
    {                                                                                                                  \
        FOUND(operator_new, name);                                                                                     \
        const uint64_t *before = stream_self.cursor;                                                                   \
        return next ? operator_noted(before, next(bytes), 0, bytes) : operator_served(malloc(bytes));                  \
    }

#define NEW_TAGGED(symbol, name)                                                                                       \
    RECORD_EXPORT void *symbol(size_t bytes, const void *tag) __asm__(name);                                           \
    void *symbol(size_t bytes, const void *tag)                                                                        \
    {                                                                                                                  \
        FOUND(operator_new_tagged, name);                                                                              \
        const uint64_t *before = stream_self.cursor;                                                                   \
        return next ? operator_noted(before, next(bytes, tag), 0, bytes) : malloc(bytes);                              \
    }

#define NEW_ALIGNED(symbol, name)                                                                                      \
    RECORD_EXPORT void *symbol(size_t bytes, size_t alignment) __asm__(name);                                          \
    void *symbol(size_t bytes, size_t alignment)                                                                       \
    {                                                                                                                  \
        FOUND(operator_new_aligned, name);                                                                             \
        const uint64_t *before = stream_self.cursor;                                                                   \
        return next ? operator_noted(before, next(bytes, alignment), alignment, bytes)                                 \
                    : operator_served(aligned_alloc(alignment, bytes));                                                \
    }

#define NEW_ALIGNED_TAGGED(symbol, name)                                                                               \
    RECORD_EXPORT void *symbol(size_t bytes, size_t alignment, const void *tag) __asm__(name);                         \
    void *symbol(size_t bytes, size_t alignment, const void *tag)                                                      \
    {                                                                                                                  \
        FOUND(operator_new_aligned_tagged, name);                                                                      \
        const uint64_t *before = stream_self.cursor;                                                                   \
        return next ? operator_noted(before, next(bytes, alignment, tag), alignment, bytes)                            \
                    : aligned_alloc(alignment, bytes);                                                                 \
    }

#define DELETE(symbol, name)                                                                                           \
    RECORD_EXPORT void symbol(void *block) __asm__(name);                                                              \
    void symbol(void *block)                                                                                           \
    {                                                                                                                  \
        FOUND(operator_delete, name);                                                                                  \
        if (!next) {                                                                                                   \
            free(block);                                                                                               \
            return;                                                                                                    \
        }                                                                                                              \
        operator_freed(block);                                                                                         \
        next(block);                                                                                                   \
    }

/* With a size, an alignment, or a tag. */
#define DELETE_MORE(symbol, name)                                                                                      \
    RECORD_EXPORT void symbol(void *block, size_t a) __asm__(name);                                                    \
    void symbol(void *block, size_t a)                                                                                 \
    {                                                                                                                  \
        FOUND(operator_delete_more, name);                                                                             \
        if (!next) {                                                                                                   \
            free(block);                                                                                               \
            return;                                                                                                    \
        }                                                                                                              \
        operator_freed(block);                                                                                         \
        next(block, a);                                                                                                \
    }

#define DELETE_MOST(symbol, name)                                                                                      \
    RECORD_EXPORT void symbol(void *block, size_t a, size_t b) __asm__(name);                                          \
    void symbol(void *block, size_t a, size_t b)                                                                       \
    {                                                                                                                  \
        FOUND(operator_delete_most, name);                                                                             \
        if (!next) {                                                                                                   \
            free(block);                                                                                               \
            return;                                                                                                    \
        }                                                                                                              \
        operator_freed(block);                                                                                         \
        next(block, a, b);                                                                                             \
    }

NEW(operator_new_one, "_Znw" SIZE)
NEW(operator_new_array, "_Zna" SIZE)
NEW_TAGGED(operator_new_one_tagged, "_Znw" SIZE "RKSt9nothrow_t")
NEW_TAGGED(operator_new_array_tagged, "_Zna" SIZE "RKSt9nothrow_t")
NEW_ALIGNED(operator_new_one_aligned, "_Znw" SIZE "St11align_val_t")
NEW_ALIGNED(operator_new_array_aligned, "_Zna" SIZE "St11align_val_t")
NEW_ALIGNED_TAGGED(operator_new_one_both, "_Znw" SIZE "St11align_val_tRKSt9nothrow_t")
NEW_ALIGNED_TAGGED(operator_new_array_both, "_Zna" SIZE "St11align_val_tRKSt9nothrow_t")

DELETE(operator_delete_one, "_ZdlPv")
DELETE(operator_delete_array, "_ZdaPv")
DELETE_MORE(operator_delete_one_sized, "_ZdlPv" SIZE)
DELETE_MORE(operator_delete_array_sized, "_ZdaPv" SIZE)
DELETE_MORE(operator_delete_one_aligned, "_ZdlPvSt11align_val_t")
DELETE_MORE(operator_delete_array_aligned, "_ZdaPvSt11align_val_t")
DELETE_MORE(operator_delete_one_tagged, "_ZdlPvRKSt9nothrow_t")
DELETE_MORE(operator_delete_array_tagged, "_ZdaPvRKSt9nothrow_t")
DELETE_MOST(operator_delete_one_both, "_ZdlPv" SIZE "St11align_val_t")
DELETE_MOST(operator_delete_array_both, "_ZdaPv" SIZE "St11align_val_t")
DELETE_MOST(operator_delete_one_aligned_tagged, "_ZdlPvSt11align_val_tRKSt9nothrow_t")
DELETE_MOST(operator_delete_array_aligned_tagged, "_ZdaPvSt11align_val_tRKSt9nothrow_t")
