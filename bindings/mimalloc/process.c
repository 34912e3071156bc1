/* mimalloc's functions about the process: options, statistics, and functions that do nothing here. */
#include "mimalloc.h"

#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

enum { VERSION = MIMALLOC_LINE == 2 ? 20302 : 30302 }; /* of the API */

typedef void output(const char *text, void *context);
static output *registered_output;
static void *registered_context;

/* ---- options: stored and read back; glebe's counterparts are set too ---- */

/* mimalloc's numbers, which are the same in all its releases. Option 15 has had several names; it has always been the
 * delay until memory is purged. */
enum { OPTION_STATS = 1, OPTION_VERBOSE = 2, OPTION_OS_MEMORY = 9, OPTION_PURGE_DELAY = 15, OPTION_ARENA_RESERVE = 23,
    OPTION_PURGE_SIZE = 44, OPTION_ARENA_OBJECT = 45, OPTIONS = 64 };
static _Atomic long options[OPTIONS];
static _Atomic bool options_set[OPTIONS];

EXPORT long mi_option_get(int option)
{
    if (option < 0 || option >= OPTIONS)
        return 0;
    switch (gb_load_relaxed(&options_set[option]) ? -1 : option) {
    case OPTION_STATS: return gb_the.options.stats != 0;
    case OPTION_VERBOSE: return gb_the.options.verbose;
    case OPTION_PURGE_DELAY: return gb_the.options.purge_ms;
    default: return gb_load_relaxed(&options[option]);
    }
}

static void option_set(int option, long value)
{
    char text[24];
    if (option < 0 || option >= OPTIONS)
        return;
    gb_store_relaxed(&options[option], value);
    gb_store_relaxed(&options_set[option], true);
    if (option == OPTION_STATS || option == OPTION_VERBOSE)
        glebe_option(option == OPTION_STATS ? "stats" : "verbose", value > 0 ? "1" : "0");
    if (option == OPTION_PURGE_DELAY) /* negative: never */
        glebe_option("purge_ms",
            gb_decimal(value < 0 || value > (long)(UINT32_MAX / 4) ? UINT32_MAX / 4 : (uint64_t)value, text));
}

static void option_default(int option, long value)
{
    if (option >= 0 && option < OPTIONS && !gb_load_relaxed(&options_set[option]))
        option_set(option, value);
}

EXPORT void mi_option_set(int option, long value) { option_set(option, value); }
EXPORT void mi_option_set_default(int option, long value) { option_default(option, value); }
EXPORT void mi_option_set_enabled(int option, bool enable) { option_set(option, enable); }
EXPORT void mi_option_set_enabled_default(int option, bool enable) { option_default(option, enable); }
EXPORT void mi_option_enable(int option) { option_set(option, 1); }
EXPORT void mi_option_disable(int option) { option_set(option, 0); }
EXPORT bool mi_option_is_enabled(int option) { return mi_option_get(option) != 0; }

EXPORT long mi_option_get_clamp(int option, long least, long most)
{
    long value = mi_option_get(option);
    return value < least ? least : value > most ? most : value;
}

/* Some options are in KiB. */
EXPORT size_t mi_option_get_size(int option)
{
    long value = mi_option_get(option);
    bool kib = option == OPTION_OS_MEMORY || option == OPTION_ARENA_RESERVE
        || (MIMALLOC_LINE == 3 && (option == OPTION_PURGE_SIZE || option == OPTION_ARENA_OBJECT));
    return value < 0 ? 0 : kib ? (size_t)value * 1024 : (size_t)value;
}

EXPORT void mi_register_output(output *function, void *context)
{
    registered_context = context;
    registered_output = function;
}

/* No callback: glebe reports misuse on stderr, and its option on_error decides whether the process goes on. */
EXPORT void mi_register_error(void (*function)(int error, void *context), void *context)
{
    (void)function;
    (void)context;
}

/* ---- statistics: glebe's ---- */

static void say(output *function, void *context, const char *text)
{
    if (!function) {
        function = registered_output;
        context = registered_context;
    }
    if (function)
        function(text, context);
    else
        gb_port_print(text, strlen(text));
}

EXPORT void mi_stats_print_out(output *function, void *context)
{
    char text[4096];
    glebe_stats_text(text, sizeof text);
    say(function, context, text);
}

EXPORT void mi_stats_print(void *ignored)
{
    (void)ignored;
    mi_stats_print_out(NULL, NULL);
}

EXPORT void mi_thread_stats_print_out(output *function, void *context) { mi_stats_print_out(function, context); }
EXPORT void mi_debug_show_arenas(void) { mi_stats_print_out(NULL, NULL); }
EXPORT void mi_arenas_print(void) { mi_stats_print_out(NULL, NULL); }

/* Writes to `buffer`; if that is NULL, returns a block, which mi_free frees. */
EXPORT char *mi_stats_get_json(size_t bytes, char *buffer)
{
    char text[4096];
    size_t length = glebe_stats_json(text, sizeof text);
    if (!buffer)
        return glebe_strdup(text);
    if (length >= bytes)
        return NULL;
    return memcpy(buffer, text, length + 1);
}

EXPORT void mi_options_print_out(output *function, void *context)
{
    char text[256];
    snprintf(text, sizeof text,
        "glebe %d.%d.%d for mimalloc %d: verbose %u, stats %u, background %u, limit %zu, purge_ms %u\n",
        GLEBE_VERSION_MAJOR, GLEBE_VERSION_MINOR, GLEBE_VERSION_PATCH, VERSION, gb_the.options.verbose,
        gb_the.options.stats, gb_the.options.background, gb_the.options.limit, gb_the.options.purge_ms);
    say(function, context, text);
}

EXPORT void mi_options_print(void) { mi_options_print_out(NULL, NULL); }

/* glebe's statistics count from the start of the process, for all threads together. */
EXPORT void mi_stats_reset(void) {}
EXPORT void mi_stats_merge(void) {}

static size_t milliseconds(long seconds, long thousandths) { return (size_t)seconds * 1000 + (size_t)thousandths; }

static size_t elapsed_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return milliseconds(now.tv_sec, now.tv_nsec / 1000000);
}

static size_t started_ms;
__attribute__((constructor)) static void note_start(void) { started_ms = elapsed_ms(); }

static size_t resident(size_t otherwise)
{
    FILE *file = fopen("/proc/self/statm", "re");
    size_t pages;
    bool is = file && fscanf(file, "%*u %zu", &pages) == 1;
    if (file)
        fclose(file);
    return is ? pages * gb_port_page_bytes() : otherwise;
}

EXPORT void mi_process_info(size_t *elapsed, size_t *user, size_t *system, size_t *rss, size_t *rss_peak,
    size_t *commit, size_t *commit_peak, size_t *faults)
{
    struct rusage use;
    glebe_stats stats;
    getrusage(RUSAGE_SELF, &use);
    glebe_stats_read(&stats);
    size_t most = (size_t)use.ru_maxrss * 1024;
    size_t peak = (size_t)(stats.peak_used_bytes > stats.committed_bytes ? stats.peak_used_bytes
                                                                         : stats.committed_bytes);
    struct {
        size_t *out, value;
    } all[] = {{elapsed, elapsed_ms() - started_ms},
        {user, milliseconds(use.ru_utime.tv_sec, use.ru_utime.tv_usec / 1000)},
        {system, milliseconds(use.ru_stime.tv_sec, use.ru_stime.tv_usec / 1000)}, {rss, resident(most)},
        {rss_peak, most}, {commit, (size_t)stats.committed_bytes}, {commit_peak, peak},
        {faults, (size_t)use.ru_majflt}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i].out)
            *all[i].out = all[i].value;
}

EXPORT void mi_process_info_print_out(output *function, void *context)
{
    char text[256];
    size_t v[8];
    mi_process_info(&v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7]);
    snprintf(text, sizeof text,
        "elapsed %zu ms, user %zu ms, system %zu ms, rss %zu, at most %zu, committed %zu, at most %zu, "
        "major faults %zu\n",
        v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
    say(function, context, text);
}

EXPORT void mi_process_info_print(void) { mi_process_info_print_out(NULL, NULL); }

/* ---- functions that do nothing or always fail ---- */

EXPORT int mi_version(void) { return VERSION; }
EXPORT bool mi_is_redirected(void) { return false; } /* can be true only on Windows */
EXPORT void mi_process_init(void) {}
EXPORT void mi_process_done(void) {}
EXPORT void mi_thread_init(void) {}
EXPORT void mi_thread_done(void) {}
EXPORT void mi_thread_set_in_threadpool(void) {}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
EXPORT void mi_heap_set_numa_affinity(mi_heap_t *heap, int node) {}
/* Guard pages, which mimalloc has only in a special build. */
EXPORT void mi_heap_guarded_set_sample_rate(mi_heap_t *heap, size_t rate, size_t seed) {}
EXPORT void mi_heap_guarded_set_size_bound(mi_heap_t *heap, size_t least, size_t most) {}
EXPORT void mi_theap_guarded_set_sample_rate(mi_heap_t *heap, size_t rate, size_t seed) {}
EXPORT void mi_theap_guarded_set_size_bound(mi_heap_t *heap, size_t least, size_t most) {}
/* A hint to move the block; moving never pays off here. */
EXPORT bool mi_unsafe_heap_page_is_under_utilized(mi_heap_t *heap, void *p, size_t percent) { return false; }
/* glebe takes no memory ahead of need, and none from the program. The result is mimalloc's if the system has none. */
EXPORT int mi_reserve_os_memory(size_t bytes, bool commit, bool large) { return ENOMEM; }
EXPORT int mi_reserve_huge_os_pages_interleave(size_t pages, size_t nodes, size_t ms) { return ENOMEM; }
EXPORT int mi_reserve_huge_os_pages_at(size_t pages, int node, size_t ms) { return ENOMEM; }
EXPORT bool mi_manage_os_memory(void *start, size_t bytes, bool committed, bool large, bool zero, int node)
{
    return false;
}
EXPORT int mi_reserve_huge_os_pages(size_t pages, double seconds, size_t *reserved)
{
    if (reserved)
        *reserved = 0;
    return ENOMEM;
}
#pragma GCC diagnostic pop
