/* The part of the interface that the tests use, declared as bdwgc documents it. */
#ifndef GC_H
#define GC_H

#include <pthread.h>
#include <stddef.h>

typedef unsigned long GC_word;
typedef void GC_finalization_proc(void *object, void *data);
struct GC_stack_base { void *mem_base; };
struct GC_ms_entry;
typedef struct GC_ms_entry *GC_mark_proc(GC_word *, struct GC_ms_entry *, struct GC_ms_entry *, GC_word);

void GC_init(void);
void *GC_malloc(size_t), *GC_malloc_atomic(size_t), *GC_malloc_uncollectable(size_t), *GC_malloc_many(size_t);
void *GC_realloc(void *, size_t), *GC_memalign(size_t, size_t), *GC_base(void *);
void GC_free(void *), GC_gcollect(void), GC_enable(void), GC_disable(void);
size_t GC_size(const void *), GC_get_heap_size(void);
char *GC_strdup(const char *);
int GC_is_heap_ptr(const void *), GC_invoke_finalizers(void), GC_should_invoke_finalizers(void), GC_expand_hp(size_t);
void GC_register_finalizer(void *, GC_finalization_proc *, void *, GC_finalization_proc **, void **);
void GC_register_finalizer_ignore_self(void *, GC_finalization_proc *, void *, GC_finalization_proc **, void **);
void GC_register_finalizer_no_order(void *, GC_finalization_proc *, void *, GC_finalization_proc **, void **);
void GC_set_finalize_on_demand(int), GC_set_finalizer_notifier(void (*)(void)), GC_set_max_heap_size(GC_word);
int GC_general_register_disappearing_link(void **, const void *), GC_unregister_disappearing_link(void **);
int GC_move_disappearing_link(void **, void **), GC_register_long_link(void **, const void *);
void GC_add_roots(void *, void *), GC_remove_roots(void *, void *), GC_exclude_static_roots(void *, void *);
void GC_set_oom_fn(void *(*)(size_t)), GC_set_warn_proc(void (*)(char *, GC_word));
void **GC_new_free_list(void);
unsigned GC_new_kind(void **, GC_word, int, int), GC_new_proc(GC_mark_proc *);
void *GC_generic_malloc(size_t, int);
void GC_generic_malloc_many(size_t, int, void **);
struct GC_ms_entry *GC_mark_and_push(void *, struct GC_ms_entry *, struct GC_ms_entry *, void **);
GC_word GC_make_descriptor(const GC_word *, size_t), GC_get_gc_no(void);
void *GC_malloc_explicitly_typed(size_t, GC_word), *GC_calloc_explicitly_typed(size_t, size_t, GC_word);
void GC_allow_register_threads(void);
int GC_register_my_thread(const struct GC_stack_base *), GC_unregister_my_thread(void), GC_thread_is_registered(void);
int GC_get_stack_base(struct GC_stack_base *), GC_pthread_join(pthread_t, void **), GC_pthread_detach(pthread_t);
int GC_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
void GC_pthread_exit(void *);
void *GC_do_blocking(void *(*)(void *), void *), *GC_call_with_gc_active(void *(*)(void *), void *);
void *GC_call_with_alloc_lock(void *(*)(void *), void *);
extern char *GC_stackbottom;
int GC_get_parallel(void);
void GC_register_disclaim_proc(int, int (*)(void *), int), GC_set_find_leak(int);
void GC_set_on_collection_event(void (*)(int event));
int GC_is_marked(const void *), GC_toggleref_add(void *, int);
typedef int GC_toggleref_func(void *);
void GC_set_toggleref_func(GC_toggleref_func *);
GC_toggleref_func *GC_get_toggleref_func(void);
size_t GC_get_memory_use(void);

#endif
