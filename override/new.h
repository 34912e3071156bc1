/* The functions of new.c that bindings/mimalloc uses for C++'s behaviour when memory ends. */
#ifndef OVERRIDE_NEW_H
#define OVERRIDE_NEW_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#if UINTPTR_MAX == UINT_MAX && !defined(__LP64__)
#define NEW_SIZE "j" /* how size_t is mangled */
#else
#define NEW_SIZE "m"
#endif

#pragma GCC visibility push(hidden)

/* Asks the new_handler for memory until there is a block of `bytes`, in the calling thread's heap; else throws
 * std::bad_alloc. `caller`: an address in the object that wants it. `alignment` 0: none was asked for. */
void *override_new_retry(size_t alignment, size_t bytes, const void *caller);
/* The same for new(nothrow), which gives NULL. `tag` is a std::nothrow_t, `name` the mangled form that was called,
 * `own` its address. */
void *override_nothrow_retry(
    size_t alignment, size_t bytes, const void *tag, const void *caller, const char *name, void *own);

#pragma GCC visibility pop

#endif
