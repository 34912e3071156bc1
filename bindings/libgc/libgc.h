/* What the files here share. Names that begin with GC_ are the library's interface: their names, parameters and meaning
 * are those that bdwgc documents, and docs/libgc.md has a table of them. All else is hidden. */
#ifndef LIBGC_H
#define LIBGC_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "../../src/core.h"
#include "../../src/gc/gc.h"

#include <pthread.h>

#define EXPORT __attribute__((visibility("default"), used))

typedef unsigned long GC_word;
typedef void *GC_fn_type(void *data);
struct GC_stack_base {
    void *mem_base;
};
enum { GC_SUCCESS, GC_DUPLICATE, GC_NO_MEMORY, GC_UNIMPLEMENTED, GC_NOT_FOUND };

/* Data that programs read and write by name. */
extern GC_word GC_gc_no, GC_non_gc_bytes, GC_free_space_divisor, GC_max_retries;
extern int GC_dont_gc, GC_find_leak, GC_all_interior_pointers, GC_finalize_on_demand, GC_java_finalization, GC_no_dls;
extern char *GC_stackbottom;
extern void *(*GC_oom_fn)(size_t bytes);
extern void (*GC_finalizer_notifier)(void);
extern void (*GC_on_heap_resize)(GC_word bytes);

#pragma GCC visibility push(hidden)

/* ---- knobs ---- */
/* Says once on stderr that this function is not served. */
#define REFUSE() do { static bool said; if (!said) { said = true; libgc_refuse(__func__); } } while (0)
void libgc_refuse(const char *name);
void libgc_warn(const char *format, GC_word value);
/* Calls the program's function for the event (GC_EventType), if there is one. */
void libgc_event(int event);
void libgc_thread_event(int event, pthread_t id);
void libgc_begins(void);
void libgc_ended(const glebe_gc_stats *stats);
void libgc_read_environment(void);
/* Says how many threads mark. */
void libgc_set_helpers(void);

/* ---- heap ---- */
extern glebe_gc *libgc_gc; /* NULL: GC_init was not called */
extern bool libgc_threads; /* more threads than one may use the heap: the lock counts */
extern int libgc_on_demand; /* only calls of GC_gcollect and its like collect */
extern bool libgc_after; /* finalizers are ready, or a notifier is to be called */
extern gb_lock libgc_lock; /* the one lock around the heap, the threads and the roots */
/* Of this thread, if it is registered: small objects without the lock. NULL while this thread collects. */
extern GB_TLS gb_cache *libgc_cache;
extern GB_TLS unsigned libgc_depth; /* of libgc_enter in this thread: callbacks under the lock may call GC_base etc. */
GB_INLINE void libgc_enter(void)
{
    if (GB_UNLIKELY(libgc_threads) && libgc_depth++ == 0)
        gb_lock_take(&libgc_lock);
}
/* Threads may have been announced since libgc_enter: then the lock was not taken. */
GB_INLINE void libgc_leave(void)
{
    if (GB_UNLIKELY(libgc_threads) && libgc_depth && --libgc_depth == 0)
        gb_lock_drop(&libgc_lock);
}
/* Returns a new object, all zero, after what bdwgc does on such an occasion: initializes, collects, finalizes, calls
 * the function for the end of memory. `pinned`: it stays until GC_free. */
void *libgc_take(size_t bytes, uintptr_t layout, bool pinned);
/* The bytes to allocate for a request: one more if the address behind an object counts as part of it. */
GB_INLINE size_t libgc_padded(size_t bytes)
{
    return bytes + (GC_all_interior_pointers != 0 && bytes < SIZE_MAX);
}
/* Applies GC_expand_hp and GC_free_space_divisor to the pace. Under the lock. */
void libgc_pace(void);
/* Applies GC_set_max_heap_size. Under the lock. */
void libgc_limit(void);
extern unsigned libgc_every; /* for tests: each n-th allocation that is not the quickest collects; 0: off */
void libgc_expand(size_t bytes);

/* ---- finalize ---- */
/* Runs or announces what is ready. Without the lock. */
void libgc_finalize(void);

/* ---- reclaim ---- */
/* Of the collector: see gb_hooks. */
void libgc_traced(glebe_gc *gc);
void libgc_marked(glebe_gc *gc);
/* Asks the program about each toggle reference. Before the world stops. */
void libgc_toggles_ask(void);
void libgc_toggles_mark(glebe_gc *gc);

/* ---- kinds ---- */
/* Returns the layout of the kind with this number; reports a number that GC_new_kind did not return. */
uintptr_t libgc_kind(int number);
int libgc_kind_number(const glebe_gc *gc, const void *object);

/* ---- roots ---- */
/* Finds the data segments of all loaded objects. The world runs: it takes the loader's lock. */
void libgc_roots_find(void);
/* The same, and stops the world before anything is unloaded. */
void libgc_roots_stop(void);
void libgc_roots_mark(glebe_gc *gc);
bool libgc_roots_have(const void *address);

/* ---- world ---- */
void libgc_world_init(void);
void libgc_world_stop(void);
void libgc_world_start(void);
/* Marks the stacks and registers of all threads, which are at rest. */
void libgc_world_mark(glebe_gc *gc);
bool libgc_on_stack(const void *address);
extern int libgc_suspend_signal, libgc_restart_signal;

#pragma GCC visibility pop

EXPORT void GC_init(void);
EXPORT __attribute__((format(printf, 1, 2))) void GC_err_printf(const char *format, ...);
EXPORT void *GC_malloc(size_t bytes);
EXPORT void GC_free(void *object);
EXPORT void GC_gcollect(void);
EXPORT int GC_invoke_finalizers(void);

#endif
