/* What the program sets and reads: knobs, callbacks, statistics, messages. Most of bdwgc's knobs tune bdwgc itself.
 * They are accepted, and read back as they were set; docs/libgc.md says for each whether it does anything. */
#include "libgc.h"

#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* ---- data by name ---- */

EXPORT GC_word GC_gc_no = 1, GC_non_gc_bytes, GC_free_space_divisor = 3, GC_max_retries;
EXPORT int GC_dont_gc, GC_all_interior_pointers = 1, GC_finalize_on_demand, GC_java_finalization = 1, GC_no_dls;
EXPORT int GC_find_leak, GC_parallel, GC_dont_expand, GC_use_entire_heap, GC_full_freq = 19, GC_dont_precollect;
EXPORT unsigned long GC_time_limit = 50;
EXPORT char *GC_stackbottom;
EXPORT void (*GC_finalizer_notifier)(void);
EXPORT void (*GC_on_heap_resize)(GC_word bytes);
EXPORT size_t GC_debug_header_size;
/* wide bounds: the core's own test is as quick as a comparison with narrow ones */
EXPORT void *GC_least_plausible_heap_addr = (void *)0x10000, *GC_greatest_plausible_heap_addr = (void *)UINTPTR_MAX;

static void *oom_null(size_t bytes)
{
    (void)bytes;
    return NULL;
}
EXPORT void *(*GC_oom_fn)(size_t bytes) = oom_null;

/* ---- messages ---- */

static int log_fd = STDERR_FILENO;
EXPORT void GC_set_log_fd(int fd) { log_fd = fd; }

/* Nothing here allocates or takes a lock of stdio: the world may be stopped. */
static void warn_default(char *message, GC_word value)
{
    char text[400];
    int bytes = snprintf(text, sizeof text, message, value);
    gb_port_print("GC Warning: ", 12);
    gb_port_print(text, bytes < (int)sizeof text ? (size_t)bytes : sizeof text - 1);
}

typedef void GC_warn_proc(char *message, GC_word value);
static GC_warn_proc *warn = warn_default;
EXPORT void GC_set_warn_proc(GC_warn_proc *function)
{
    if (!libgc_gc)
        GC_init();
    warn = function;
}
EXPORT GC_warn_proc *GC_get_warn_proc(void) { return warn; }
EXPORT void GC_ignore_warn_proc(char *message, GC_word value) { (void)message, (void)value; }

void libgc_warn(const char *format, GC_word value) { warn((char *)(uintptr_t)format, value); }

void libgc_refuse(const char *name)
{
    char text[200];
    int bytes = snprintf(text, sizeof text, "glebe: %s: not served by glebe's libgc; the call fails\n", name);
    gb_port_print(text, (size_t)bytes);
}

#define PRINTF(name, fd)                                                                                               \
    EXPORT __attribute__((format(printf, 1, 2))) void name(const char *format, ...)                                    \
    {                                                                                                                  \
        va_list arguments;                                                                                             \
        va_start(arguments, format);                                                                                   \
        vdprintf(fd, format, arguments);                                                                               \
        va_end(arguments);                                                                                             \
    }
PRINTF(GC_printf, STDOUT_FILENO)
PRINTF(GC_err_printf, STDERR_FILENO)
PRINTF(GC_log_printf, log_fd)

/* A function that sets a variable, and one that returns it. */
#define KNOB(type, name, variable)                                                                                     \
    EXPORT void GC_set_##name(type value) { variable = value; }                                                        \
    EXPORT type GC_get_##name(void) { return variable; }

typedef void GC_abort_func(const char *message);
static void abort_default(const char *message)
{
    if (message)
        gb_port_print(message, strlen(message));
}
EXPORT GC_abort_func *GC_on_abort = abort_default;
KNOB(GC_abort_func *, abort_func, GC_on_abort)
EXPORT void GC_abort_on_oom(void)
{
    GC_on_abort("Insufficient memory for the allocation\n");
    abort();
}

/* ---- callbacks ---- */

typedef void event_function(int event);
typedef void plain_function(void);
typedef void *oom_function(size_t bytes);
typedef void resize_function(GC_word bytes);
typedef int stop_function(void);
typedef void thread_event_function(int event, void *thread);
typedef void await_function(void *object);
static int stop_never(void) { return 0; }
static event_function *on_event;
static plain_function *on_start;
static stop_function *on_stop = stop_never;
static thread_event_function *on_thread;
EXPORT plain_function *GC_push_other_roots;
KNOB(event_function *, on_collection_event, on_event)
KNOB(plain_function *, start_callback, on_start)
KNOB(plain_function *, push_other_roots, GC_push_other_roots)
KNOB(oom_function *, oom_fn, GC_oom_fn)
KNOB(resize_function *, on_heap_resize, GC_on_heap_resize)
KNOB(plain_function *, finalizer_notifier, GC_finalizer_notifier)
KNOB(stop_function *, stop_func, on_stop)

KNOB(thread_event_function *, on_thread_event, on_thread)
EXPORT void GC_set_await_finalize_proc(await_function *function)
{
    if (function)
        REFUSE();
}
EXPORT await_function *GC_get_await_finalize_proc(void) { return NULL; }
EXPORT void GC_register_describe_type_fn(int kind, void (*describe)(void *object, char *text))
{
    (void)kind, (void)describe; /* only bdwgc's debugging messages would call it */
}

void libgc_event(int event)
{
    if (on_event)
        on_event(event);
}

void libgc_thread_event(int event, pthread_t id)
{
    if (on_thread)
        on_thread(event, (void *)id);
}

static size_t heap_bytes, freed_bytes;
static bool measures;
static uint64_t began_ns, collecting_ns; /* since GC_start_performance_measurement */

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void libgc_begins(void)
{
    if (on_start)
        on_start();
    libgc_event(0 /* GC_EVENT_START */);
    began_ns = measures ? clock_ns() : 0;
}

void libgc_ended(const glebe_gc_stats *stats)
{
    GC_gc_no = 1 + stats->collections;
    freed_bytes = stats->freed_bytes;
    collecting_ns += began_ns ? clock_ns() - began_ns : 0;
    libgc_event(5 /* GC_EVENT_END */);
    if (GC_on_heap_resize && heap_bytes != stats->heap_bytes)
        GC_on_heap_resize(stats->heap_bytes);
    heap_bytes = stats->heap_bytes;
}

/* ---- knobs ---- */

#define STORED(type, name, value)                                                                                      \
    static type stored_##name = value;                                                                                 \
    KNOB(type, name, stored_##name)

KNOB(int, all_interior_pointers, GC_all_interior_pointers)
KNOB(int, finalize_on_demand, GC_finalize_on_demand)
KNOB(int, java_finalization, GC_java_finalization)
KNOB(int, no_dls, GC_no_dls)
KNOB(int, find_leak, GC_find_leak)
KNOB(int, dont_expand, GC_dont_expand)
KNOB(int, dont_precollect, GC_dont_precollect)
KNOB(int, full_freq, GC_full_freq)
KNOB(GC_word, max_retries, GC_max_retries)
KNOB(GC_word, non_gc_bytes, GC_non_gc_bytes)
KNOB(unsigned long, time_limit, GC_time_limit)
STORED(GC_word, allocd_bytes_per_finalizer, 10000)
STORED(int, force_unmap_on_gcollect, 0)
STORED(int, manual_vdb_allowed, 0)
STORED(int, max_prior_attempts, 3)
STORED(size_t, min_bytes_allocd, 1)
STORED(int, pages_executable, 0)
STORED(int, rate, 10)

KNOB(int, disable_automatic_collection, libgc_on_demand)

struct GC_timeval_s {
    unsigned long tv_ms, tv_nsec;
};
STORED(struct GC_timeval_s, time_limit_tv, {0})

EXPORT void GC_set_free_space_divisor(GC_word value)
{
    GC_free_space_divisor = value;
    if (libgc_gc)
        libgc_pace();
}
EXPORT GC_word GC_get_free_space_divisor(void) { return GC_free_space_divisor; }

static GC_word max_heap_bytes;

/* Called after each collection, too: a heap with more bytes than that grows no more, and the limit falls with it. */
void libgc_limit(void)
{
    if (libgc_gc->heap->limit_bytes != max_heap_bytes && glebe_gc_limit(libgc_gc, max_heap_bytes))
        glebe_gc_limit(libgc_gc, glebe_heap_bytes(libgc_gc->heap));
}

EXPORT void GC_set_max_heap_size(GC_word bytes)
{
    max_heap_bytes = bytes;
    if (!libgc_gc)
        return;
    libgc_enter();
    libgc_limit();
    libgc_leave();
}

EXPORT int GC_expand_hp(size_t bytes)
{
    if (!libgc_gc)
        GC_init();
    libgc_enter();
    bool fits = !max_heap_bytes || libgc_gc->heap->collected_bytes + bytes <= max_heap_bytes;
    if (fits)
        libgc_expand(bytes);
    libgc_pace();
    libgc_leave();
    return fits;
}

EXPORT void GC_set_handle_fork(int value) { (void)value; } /* fork always works */

enum { MARKERS_MOST = 8 };
static unsigned markers; /* 0, or more than an int holds: one for each processor */

/* Helpers start when there is much to mark. */
void libgc_set_helpers(void)
{
    cpu_set_t processors;
    unsigned count = sched_getaffinity(0, sizeof processors, &processors) ? 1 : (unsigned)CPU_COUNT(&processors);
    if (markers && markers <= INT_MAX)
        count = markers;
    libgc_gc->helpers = (count > MARKERS_MOST ? MARKERS_MOST : count) - 1;
    GC_parallel = (int)libgc_gc->helpers;
}

EXPORT void GC_set_markers_count(unsigned count) { markers = count; }
EXPORT void GC_start_mark_threads(void) {}
EXPORT int GC_get_parallel(void) { return GC_parallel; }
EXPORT void GC_register_displacement(size_t bytes) { (void)bytes; } /* every address inside an object counts */
EXPORT void GC_debug_register_displacement(size_t bytes) { (void)bytes; }

/* bdwgc without means to see what was written behaves the same: it stays as it is. */
EXPORT void GC_enable_incremental(void)
{
    if (!libgc_gc)
        GC_init();
}
EXPORT int GC_is_incremental_mode(void) { return 0; }
EXPORT int GC_incremental_protection_needs(void) { return 0; }
EXPORT void GC_start_incremental_collection(void) {}

EXPORT void GC_set_suspend_signal(int signal)
{
    if (!libgc_gc)
        libgc_suspend_signal = signal;
}
EXPORT void GC_set_thr_restart_signal(int signal)
{
    if (!libgc_gc)
        libgc_restart_signal = signal;
}
EXPORT int GC_get_suspend_signal(void) { return libgc_suspend_signal; }
EXPORT int GC_get_thr_restart_signal(void) { return libgc_restart_signal; }

/* Reads a number from the environment, with a unit like the sizes of glebe's own options. Leaves `number` if there is
 * none, and warns of one that it does not understand. */
static bool read_number(const char *name, GC_word most, GC_word *number)
{
    const char *text = getenv(name);
    uint64_t read;
    if (!text)
        return false;
    if (!gb_option_size(text, most, &read)) {
        char said[80];
        snprintf(said, sizeof said, "%s is not understood, and ignored\n", name);
        libgc_warn(said, 0);
        return false;
    }
    *number = (GC_word)read;
    return true;
}

void libgc_read_environment(void)
{
    GC_word number;
    read_number("GC_FREE_SPACE_DIVISOR", ULONG_MAX, &GC_free_space_divisor);
    if (read_number("GC_MAXIMUM_HEAP_SIZE", ULONG_MAX, &max_heap_bytes))
        libgc_limit();
    if (read_number("GC_INITIAL_HEAP_SIZE", ULONG_MAX, &number))
        libgc_expand(number);
    if (read_number("GC_COLLECT_EVERY", UINT_MAX, &number))
        libgc_every = (unsigned)number;
    if (read_number("GC_MARKERS", INT_MAX, &number))
        markers = (unsigned)number;
    if (getenv("GC_FIND_LEAK"))
        GC_find_leak = 1;
    if (getenv("GC_DONT_GC"))
        GC_dont_gc = 1;
}

/* ---- statistics ---- */

EXPORT unsigned GC_get_version(void) { return 8 << 16 | 2 << 8 | 2; }
EXPORT GC_word GC_get_gc_no(void) { return GC_gc_no; }

static glebe_gc_stats stats_now(void)
{
    glebe_gc_stats stats = {0};
    if (libgc_gc)
        glebe_gc_stats_read(libgc_gc, &stats);
    return stats;
}

static size_t free_bytes(const glebe_gc_stats *stats)
{
    size_t used = stats->live_bytes + libgc_gc->taken_bytes;
    return stats->heap_bytes > used ? stats->heap_bytes - used : 0;
}

EXPORT size_t GC_get_heap_size(void) { return stats_now().heap_bytes; }
EXPORT size_t GC_get_free_bytes(void)
{
    glebe_gc_stats stats = stats_now();
    return libgc_gc ? free_bytes(&stats) : 0;
}
EXPORT size_t GC_get_unmapped_bytes(void) { return 0; }
/* The gaps of caches count whole, as the free lists of threads do in bdwgc. */
EXPORT size_t GC_get_bytes_since_gc(void) { return libgc_gc ? libgc_gc->taken_bytes : 0; }
EXPORT size_t GC_get_expl_freed_bytes_since_gc(void) { return 0; }
EXPORT size_t GC_get_total_bytes(void)
{
    return libgc_gc ? libgc_gc->stats.allocated_bytes + libgc_gc->taken_bytes : 0;
}
EXPORT size_t GC_get_obtained_from_os_bytes(void) { return stats_now().heap_bytes; }
EXPORT size_t GC_get_memory_use(void) { return libgc_gc ? libgc_gc->live_bytes + libgc_gc->taken_bytes : 0; }
EXPORT size_t GC_get_size_map_at(int index) { return index < 0 || index > 128 ? (size_t)-1 : (size_t)index * 16; }

EXPORT void GC_get_heap_usage_safe(GC_word *heap, GC_word *unused, GC_word *unmapped, GC_word *since, GC_word *total)
{
    libgc_enter();
    GC_word values[] = {GC_get_heap_size(), GC_get_free_bytes(), 0, GC_get_bytes_since_gc(), GC_get_total_bytes()};
    libgc_leave();
    GC_word *to[] = {heap, unused, unmapped, since, total};
    for (int i = 0; i < 5; i++)
        if (to[i])
            *to[i] = values[i];
}

/* Copies as many of the fields as the program knows; fields that only it knows are -1. */
EXPORT size_t GC_get_prof_stats_unsafe(GC_word *out, size_t bytes)
{
    glebe_gc_stats stats = stats_now();
    GC_word before = libgc_gc ? libgc_gc->stats.allocated_bytes : 0;
    GC_word values[] = {stats.heap_bytes, GC_get_free_bytes(), 0, GC_get_bytes_since_gc(), before, GC_non_gc_bytes,
        GC_gc_no, 0, freed_bytes, stats.freed_bytes, 0, stats.heap_bytes};
    memset(out, 0xff, bytes);
    bytes = bytes < sizeof values ? bytes : sizeof values;
    memcpy(out, values, bytes);
    return bytes;
}

EXPORT size_t GC_get_prof_stats(GC_word *out, size_t bytes)
{
    libgc_enter();
    bytes = GC_get_prof_stats_unsafe(out, bytes);
    libgc_leave();
    return bytes;
}

EXPORT void GC_start_performance_measurement(void) { measures = true; }
EXPORT unsigned long GC_get_full_gc_total_time(void) { return (unsigned long)(collecting_ns / 1000000); }
EXPORT void GC_incr_bytes_allocd(size_t bytes) { (void)bytes; } /* told by inline allocators of old programs */
EXPORT void GC_incr_bytes_freed(size_t bytes) { (void)bytes; }

EXPORT void GC_dump_named(const char *name)
{
    glebe_gc_stats stats = stats_now();
    printf("***GC dump %s: collections %lu, heap %lu bytes, live %lu at the last collection, allocated since %lu\n",
        name ? name : "", (GC_word)stats.collections, (GC_word)stats.heap_bytes, (GC_word)stats.live_bytes,
        (GC_word)GC_get_bytes_since_gc());
    if (libgc_gc && libgc_gc->scanned_by[0])
        printf("***objects scanned where several threads marked: %lu by the collecting thread, %lu by helpers\n",
            (GC_word)libgc_gc->scanned_by[0], (GC_word)libgc_gc->scanned_by[1]);
}
EXPORT void GC_dump(void) { GC_dump_named(NULL); }
EXPORT void GC_dump_regions(void) { REFUSE(); }
EXPORT void GC_dump_finalization(void) { REFUSE(); }
