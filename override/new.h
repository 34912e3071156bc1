/* The functions of new.c that bindings/mimalloc uses for C++'s behaviour when memory runs out. */
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

/* Calls the new_handler until the calling thread's heap has a block of `bytes`; throws std::bad_alloc if no handler is
 * left. `caller` is an address in the calling object. `alignment` 0: none was requested. */
void *override_new_retry(size_t alignment, size_t bytes, const void *caller);
/* override_new_retry for new(nothrow): returns NULL instead of throwing. `tag` is a std::nothrow_t, `name` the mangled
 * name of the form that was called, `own` its address. */
void *override_nothrow_retry(
    size_t alignment, size_t bytes, const void *tag, const void *caller, const char *name, void *own);

#pragma GCC visibility pop

#endif
