/* mimalloc's declarations, as far as these tests use them: from its own header if one of line LINE is installed. */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#if defined(THEIRS)
#include <mimalloc.h>
#if MI_MALLOC_VERSION < 1000
#define mi_option_purge_delay mi_option_decommit_delay
#endif
#else
typedef struct mi_heap_s mi_heap_t;
typedef void mi_output_fun(const char *text, void *context);
enum { mi_option_show_errors, mi_option_show_stats, mi_option_verbose, mi_option_purge_delay = 15 };

#define HEAPS(name, ...) \
    void *mi_##name(__VA_ARGS__); \
    void *mi_heap_##name(mi_heap_t *, __VA_ARGS__);
HEAPS(malloc, size_t)
HEAPS(zalloc, size_t)
HEAPS(malloc_small, size_t)
HEAPS(zalloc_small, size_t)
HEAPS(calloc, size_t, size_t)
HEAPS(mallocn, size_t, size_t)
HEAPS(realloc, void *, size_t)
HEAPS(reallocf, void *, size_t)
HEAPS(rezalloc, void *, size_t)
HEAPS(reallocn, void *, size_t, size_t)
HEAPS(recalloc, void *, size_t, size_t)
HEAPS(malloc_aligned, size_t, size_t)
HEAPS(zalloc_aligned, size_t, size_t)
HEAPS(malloc_aligned_at, size_t, size_t, size_t)
HEAPS(zalloc_aligned_at, size_t, size_t, size_t)
HEAPS(calloc_aligned, size_t, size_t, size_t)
HEAPS(realloc_aligned, void *, size_t, size_t)
HEAPS(rezalloc_aligned, void *, size_t, size_t)
HEAPS(realloc_aligned_at, void *, size_t, size_t, size_t)
HEAPS(recalloc_aligned, void *, size_t, size_t, size_t)
HEAPS(recalloc_aligned_at, void *, size_t, size_t, size_t, size_t)
#undef HEAPS
void mi_free(void *), mi_cfree(void *), mi_free_size(void *, size_t), mi_free_size_aligned(void *, size_t, size_t),
    mi_free_aligned(void *, size_t);
char *mi_strdup(const char *), *mi_strndup(const char *, size_t), *mi_realpath(const char *, char *),
    *mi_heap_strdup(mi_heap_t *, const char *);
void *mi_expand(void *, size_t), *mi_reallocarray(void *, size_t, size_t), *mi_aligned_alloc(size_t, size_t),
    *mi_memalign(size_t, size_t);
void *mi_valloc(size_t), *mi_pvalloc(size_t);
int mi_posix_memalign(void **, size_t, size_t), mi_reallocarr(void *, size_t, size_t), mi_version(void);
size_t mi_usable_size(const void *), mi_good_size(size_t), mi_malloc_size(const void *);
mi_heap_t *mi_heap_new(void), *mi_heap_get_default(void), *mi_heap_get_backing(void), *mi_heap_set_default(mi_heap_t *);
void mi_heap_delete(mi_heap_t *), mi_heap_destroy(mi_heap_t *), mi_heap_collect(mi_heap_t *, bool), mi_collect(bool);
bool mi_heap_contains_block(mi_heap_t *, const void *), mi_heap_contains(const mi_heap_t *, const void *),
    mi_check_owned(const void *);
bool mi_is_in_heap_region(const void *);
void mi_process_info(size_t *, size_t *, size_t *, size_t *, size_t *, size_t *, size_t *, size_t *);
void mi_stats_print_out(mi_output_fun *, void *), mi_stats_reset(void), mi_thread_init(void), mi_process_init(void);
void mi_register_output(mi_output_fun *, void *), mi_register_error(void (*)(int, void *), void *);
void mi_register_deferred_free(void (*)(bool, unsigned long long, void *), void *);
bool mi_option_is_enabled(int);
void mi_option_enable(int), mi_option_disable(int), mi_option_set_enabled(int, bool), mi_option_set(int, long);
long mi_option_get(int), mi_option_get_clamp(int, long, long);
#endif

#if LINE == 2
#define contains(heap, p) mi_heap_contains_block(heap, p)
#else
#define contains(heap, p) mi_heap_contains(heap, p)
#endif
