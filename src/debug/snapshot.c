/* The snapshot: when the process nears a limit, it writes what it knows of its memory into a file, while it still can.
 *
 *     GLEBE_SNAPSHOT=FILE@90%      of the container's limit, RLIMIT_AS, RLIMIT_DATA, or the option limit
 *     GLEBE_SNAPSHOT=FILE@2G       when blocks and pages hold 2 GiB
 *
 *     use ___________________________                a look: after half of what was left was taken, and
 *          threshold  - - - -/- \- - - -/ - - -      every 20 ms by the clock, at ticks
 *          1/32 below - - - / - -\- - -/ - - - -
 *                        snapshot  ^   snapshot      the use must fall by 1/32 before the next crossing counts
 *
 * Looks are made by requests that are slow anyway, after they are served, when their thread holds no lock of glebe's.
 * A request that fails makes a look too: a program often ends by it.
 *
 * The file is written twice, each time beside its name, and renamed when it is complete: first the sums and the
 * profile, which takes a millisecond, then these with glebe's tables and the resident pages, from which `glebe explain`
 * makes its parts. So a file of this name is always whole, even if the kernel ends the process in between. Nothing here
 * allocates: buffers are static, tables are written from where they are. A memory range is read by the kernel only, so
 * one that vanishes is an error and no fault.
 *
 * Lines of the text: the head, then a profile (profile.c) or the classes, then what gb_port_describe says, and
 * `memory ADDRESS BYTES`, after which so many bytes follow. The last line is "end". */
#include "debug.h"

#if GB_SNAPSHOTS

enum { SNAPSHOT_PATH_BYTES = 512, SNAPSHOT_LIMITS = 5, SNAPSHOT_STEP_BYTES = 256 << 10, SNAPSHOT_WAIT_MS = 500 };

typedef struct snapshot_limit {
    const char *name;
    uint64_t limit, used, threshold;
    bool ends; /* requests fail, or the kernel ends the process, at this limit */
} snapshot_limit;

/* One thread at a time is in here: the fields below the first two are its own. */
typedef struct snapshot_state {
    _Atomic uint32_t looking; /* the process of the thread that looks; a child of fork is another */
    _Atomic uint32_t first; /* likewise until the first version is written or not needed: other threads wait */
    unsigned percent; /* 0: `bytes` counts */
    uint64_t bytes;
    bool above; /* the crossing was written */
    bool promised; /* likewise for memory that was handed out, and that the program may not touch */
    bool failed; /* likewise for a failed request */
    uint64_t group_used; /* use of the container at the last look, with what was promised since */
    size_t held; /* bytes in use at the last look */
    char path[SNAPSHOT_PATH_BYTES];
    gb_text text;
} snapshot_state;
static snapshot_state snapshot;

/* ---- what is written ---- */

static void snapshot_line(void *out, const char *key, const char *line)
{
    gb_text_put(out, key);
    gb_text_put(out, " ");
    gb_text_put(out, line);
    gb_text_put(out, "\n");
}

static void snapshot_pages(void *out, uintptr_t start, uintptr_t end, char state)
{
    gb_text_put(out, "pages");
    gb_text_hex(out, start);
    gb_text_hex(out, end);
    gb_text_put(out, (char[]){' ', state, '\n', 0});
}

static void snapshot_head(gb_text *out, const snapshot_limit *limits, const snapshot_limit *crossed, size_t failed)
{
    char program[64];
    gb_plain(program, sizeof program, gb_port_program(), "");
    gb_text_put(out, "glebe-snapshot 1\nprocess");
    gb_text_number(out, gb_port_process());
    gb_text_put(out, " ");
    gb_text_put(out, program);
    gb_text_put(out, failed ? "\nfailed" : "\ncrossed");
    gb_text_number(out, failed ? failed : crossed->threshold);
    if (!failed) {
        gb_text_put(out, " ");
        gb_text_put(out, crossed->name);
    }
    gb_text_put(out, "\n");
    for (int i = 0; i < SNAPSHOT_LIMITS; i++)
        if (limits[i].ends) {
            gb_text_put(out, "limit");
            gb_text_number(out, limits[i].limit);
            gb_text_number(out, limits[i].used);
            gb_text_put(out, " ");
            gb_text_put(out, limits[i].name);
            gb_text_put(out, "\n");
        }
    const uint64_t *value = (const uint64_t *)(const void *)&glebe_live.stats;
    for (const char *name = glebe_live_names; *name; name += strlen(name) + 1) {
        gb_text_put(out, "statistic ");
        gb_text_put(out, name);
        gb_text_number(out, *value++);
        gb_text_put(out, "\n");
    }
}

/* Without a profile: the blocks of each class, and how much their pages hold. */
static void snapshot_classes(gb_text *out)
{
    static gb_class_sum sums[GB_CLASS_SUMS];
    gb_blocks_by_class(sums);
    for (uint32_t cls = 0; cls < GB_CLASS_SUMS; cls++) {
        if (sums[cls].held_bytes == 0)
            continue;
        gb_text_put(out, "class");
        gb_text_number(out, cls < GB_CLASSES ? gb_classes[cls].bytes : 0); /* 0: pages of many sizes, large blocks */
        gb_text_number(out, sums[cls].live_bytes);
        gb_text_number(out, sums[cls].held_bytes);
        gb_text_put(out, "\n");
    }
}

/* Writes the bytes at `from`, as those at `start`. */
static void snapshot_copy(gb_text *out, const void *start, const void *from, size_t bytes)
{
    if (!start || !bytes || out->error)
        return;
    gb_text_put(out, "memory");
    gb_text_hex(out, (uintptr_t)start);
    gb_text_number(out, bytes);
    gb_text_put(out, "\n");
    gb_text_flush(out);
    if (!out->error)
        out->error = gb_port_put(out->file, from, bytes);
    gb_text_put(out, "\n");
}

static void snapshot_memory(gb_text *out, const void *start, size_t bytes)
{
    snapshot_copy(out, start, start, bytes);
}

/* Pages of many sizes have their sizes inside. */
static void snapshot_mixed(gb_text *out, size_t slices)
{
    enum { MOST = 256 };
    int count = 0;
    for (uint32_t i = 0; i < slices && count < MOST; i++) {
        const gb_page *page = gb_entry_at(i);
        if (page->kind == GB_SMALL && page->cls == GB_MIXED && page->back_bytes == 0 && page->slices == 1) {
            snapshot_memory(out, (const void *)gb_slice_start(i), GB_SLICE_BYTES);
            count++;
        }
    }
}

/* Other threads run on, and tables grow. So their lengths are those of one copy of the region. */
static void snapshot_tables(gb_text *out)
{
    static gb_region region;
    memcpy((void *)&region, (const void *)&gb_the, sizeof region);
    size_t slices = gb_load_relaxed(&region.slices);
    gb_port_describe(&(gb_port_reader){snapshot_line, snapshot_pages, out});
    gb_text_put(out, "shape");
    gb_text_hex(out, (uintptr_t)gb_shape_address());
    gb_text_put(out, "\nlive");
    gb_text_hex(out, (uintptr_t)&glebe_live);
    gb_text_put(out, "\n");
    gb_shape_each(snapshot_memory, out);
    snapshot_memory(out, &glebe_live, sizeof glebe_live);
    snapshot_copy(out, (const void *)&gb_the, (const void *)&region, sizeof region);
    snapshot_memory(out, gb_classes, sizeof gb_classes[0] * GB_CLASSES);
    snapshot_memory(out, (const void *)region.table, slices * sizeof(gb_page));
    snapshot_memory(out, (const void *)region.large, slices / GB_LARGE_LEAST * sizeof(gb_page));
    snapshot_memory(out, (const void *)region.chunk_table, region.arena.chunks * sizeof(gb_chunk));
    snapshot_memory(out, region.extents, (size_t)gb_load_relaxed(&region.huge.top) * sizeof(gb_extent));
    snapshot_memory(out, region.spans.states, region.committed.spans);
    snapshot_memory(out, (const void *)region.heaps, (region.records.made + 1) * GB_HEAP_STRIDE);
    snapshot_mixed(out, slices);
}

/* The file's name: %p in the path is the process's number. */
static void snapshot_name(char *out, const char *path, const char *behind)
{
    size_t n = 0;
    for (; *path && n < SNAPSHOT_PATH_BYTES; path++)
        if (path[0] == '%' && path[1] == 'p') {
            n += gb_format(out + n, GB_TEXT_NAME_BYTES - n, "%u", gb_port_process());
            path++;
        } else
            out[n++] = *path;
    gb_format(out + n, GB_TEXT_NAME_BYTES - n, "%s", behind);
}

/* Creates the file beside the final one. Returns its descriptor, or -1 and the error. */
static int snapshot_create(char *beside, int *error)
{
    char behind[24];
    gb_format(behind, sizeof behind, ".%u.new", gb_port_process());
    snapshot_name(beside, snapshot.path, behind);
    return gb_port_create(beside, false, error);
}

static int snapshot_write(const snapshot_limit *limits, const snapshot_limit *crossed, size_t failed, bool tables)
{
    char name[GB_TEXT_NAME_BYTES], beside[GB_TEXT_NAME_BYTES];
    gb_text *out = &snapshot.text;
    *out = (gb_text){.count = 0};
    snapshot_name(name, snapshot.path, "");
    out->file = snapshot_create(beside, &out->error);
    if (out->file < 0)
        return out->error;
    snapshot_head(out, limits, crossed, failed);
#if GB_SAMPLES
    if (gb_load_relaxed(&gb_the.sampler.starts))
        gb_profile_put(out, gb_port_modules_seen);
    else
#endif
        snapshot_classes(out);
    if (tables)
        snapshot_tables(out);
    gb_text_put(out, "end\n");
    gb_text_flush(out);
    int finished = gb_port_finish(out->file, beside, out->error ? NULL : name);
    return out->error ? out->error : finished;
}

/* ---- when ---- */

static uint64_t snapshot_part(uint64_t limit)
{
    return limit / 100 * snapshot.percent + limit % 100 * snapshot.percent / 100;
}

/* Reads all limits and their use. */
static void snapshot_read(snapshot_limit limits[SNAPSHOT_LIMITS])
{
    static const char *const names[SNAPSHOT_LIMITS] = {"container", "address space (RLIMIT_AS)", "data (RLIMIT_DATA)",
        "glebe's option limit", "bytes in use"};
    memset(limits, 0, SNAPSHOT_LIMITS * sizeof limits[0]);
    snapshot_limit *at = limits;
    at[0].ends = gb_port_pressure(&at[0].limit, &at[0].used);
    for (unsigned which = 0; which < 2; which++)
        at[1 + which].ends = gb_port_limit(which, &at[1 + which].limit, &at[1 + which].used);
    at[3] = (snapshot_limit){.limit = gb_the.options.limit, .used = glebe_live.stats.used_bytes};
    at[3].ends = at[3].limit != 0;
    at[4] = (snapshot_limit){.limit = snapshot.bytes, .used = glebe_live.stats.used_bytes};
    for (int i = 0; i < SNAPSHOT_LIMITS; i++) {
        at[i].name = names[i];
        at[i].threshold = snapshot.percent ? at[i].ends ? snapshot_part(at[i].limit) : UINT64_MAX
            : i == 4                       ? at[i].limit
                                           : UINT64_MAX;
    }
}

/* Which limit has the least left to its threshold; `over`: by how much the use of the container may grow by memory that
 * was handed out since the last look. */
static const snapshot_limit *snapshot_nearest(const snapshot_limit *limits, uint64_t promised, uint64_t *left)
{
    const snapshot_limit *nearest = NULL;
    *left = UINT64_MAX;
    for (int i = 0; i < SNAPSHOT_LIMITS; i++) {
        uint64_t used = i == 0 && promised > limits[i].used ? promised : limits[i].used;
        uint64_t here = used < limits[i].threshold ? limits[i].threshold - used : 0;
        if (limits[i].threshold != UINT64_MAX && (!nearest || here < *left)) {
            nearest = limits + i;
            *left = here;
        }
    }
    return nearest;
}

static void snapshot_end(int error)
{
    char name[GB_TEXT_NAME_BYTES];
    snapshot_name(name, snapshot.path, "");
    gb_text_failed("snapshot", name, error);
    gb_store_relaxed(&gb_the.watch.from_not, 0);
    gb_the.watch.look = NULL;
}

static void snapshot_first_done(void)
{
    if (gb_swap(&snapshot.first, 0))
        gb_port_wake(&snapshot.first);
}

static void snapshot_take(const snapshot_limit *limits, const snapshot_limit *crossed, size_t failed)
{
    int error = snapshot_write(limits, crossed, failed, false);
    snapshot_first_done();
    error = error ? error : snapshot_write(limits, crossed, failed, true);
    if (error)
        snapshot_end(error);
}

/* Returns whether a request of so many bytes fails because a limit is near, and not because it is absurd. */
static bool snapshot_could(const snapshot_limit *limits, size_t bytes)
{
    for (int i = 0; i < SNAPSHOT_LIMITS; i++)
        if (limits[i].ends && bytes <= limits[i].limit)
            return true;
    return false;
}

static void snapshot_look(size_t failed)
{
    snapshot_limit limits[SNAPSHOT_LIMITS];
    size_t held = (size_t)glebe_live.stats.used_bytes, more = held > snapshot.held ? held - snapshot.held : 0;
    uint64_t left, real;
    snapshot_read(limits);
    const snapshot_limit *crossed = snapshot_nearest(limits, 0, &real);
    snapshot_nearest(limits, snapshot.group_used ? snapshot.group_used + more : 0, &left);
    if (real == 0 && !snapshot.above) {
        snapshot.above = true;
        snapshot_take(limits, crossed, 0);
    } else if (left == 0 && !snapshot.above && !snapshot.promised) {
        snapshot.promised = true;
        snapshot_take(limits, limits, 0);
    } else if (failed && !snapshot.above && !snapshot.failed && snapshot_could(limits, failed)) {
        snapshot.failed = true;
        snapshot_take(limits, limits, failed);
    }
    if (crossed && real > crossed->threshold / 32) {
        if (snapshot.above)
            snapshot.promised = snapshot.failed = false;
        snapshot.above = false;
    }
    snapshot.held = held;
    snapshot.group_used = limits[0].used;
    if (gb_the.watch.look) {
        uint64_t step = left / 2 > SNAPSHOT_STEP_BYTES ? left / 2 : SNAPSHOT_STEP_BYTES;
        size_t from = step < SIZE_MAX - held ? held + (size_t)step : SIZE_MAX;
        gb_store_relaxed(&gb_the.watch.from_not, ~from);
    }
    gb_store_relaxed(&gb_the.watch.looked_ms, gb_port_now_ms());
}

/* While one thread looks, others could take what is left, or end the program by a failed request. So they wait until
 * the first version has its name; but once only, if a file system hangs. */
static void snapshot_wait(uint32_t process)
{
    uint32_t start = gb_port_now_ms(), waited = 0;
    while (gb_load(&snapshot.first) == process && (waited = gb_ms_since(gb_port_now_ms(), start)) < SNAPSHOT_WAIT_MS)
        gb_port_wait(&snapshot.first, process, SNAPSHOT_WAIT_MS - waited);
    if (waited >= SNAPSHOT_WAIT_MS)
        snapshot_first_done();
}

static void snapshot_due(size_t failed)
{
    uint32_t process = gb_port_process();
    if (gb_lock_forking())
        return;
    if (gb_swap(&snapshot.looking, process) == process) {
        if (failed || gb_load_relaxed(&gb_the.watch.due))
            snapshot_wait(process);
        return;
    }
    gb_store(&snapshot.first, process);
    gb_store_relaxed(&gb_the.watch.due, false);
    snapshot_look(failed);
    gb_store(&snapshot.first, 0);
    gb_store(&snapshot.looking, 0); /* before others wake: they may have to look again at once */
    gb_port_wake(&snapshot.first);
}

/* ---- the start ---- */

/* Reads FILE@90% or FILE@SIZE: what is behind the last @. */
static bool snapshot_parse(const char *value)
{
    uint64_t n;
    memset((void *)&snapshot, 0, sizeof snapshot); /* which also makes its pages resident, before memory is short */
    const char *at = strrchr(value, '@');
    if (!at || at == value)
        return false;
    char number[32], path[SNAPSHOT_PATH_BYTES];
    size_t length = strlen(at + 1), before = (size_t)(at - value);
    if (length == 0 || length >= sizeof number || before >= sizeof path)
        return false;
    memcpy(number, at + 1, length + 1);
    memcpy(path, value, before);
    path[before] = 0;
    if (number[length - 1] == '%') {
        number[length - 1] = 0;
        for (const char *c = number; *c; c++)
            if (*c < '0' || *c > '9')
                return false;
        if (!gb_option_size(number, 100, &n) || n == 0)
            return false;
        snapshot.percent = (unsigned)n;
    } else if (!gb_option_size(number, GB_MAX_BYTES, &snapshot.bytes) || snapshot.bytes == 0)
        return false;
    return gb_port_absolute(path, snapshot.path, sizeof snapshot.path) != 0;
}

/* Creates the file beside the final one and removes it: what forbids that is told now. */
void gb_snapshot_begin(void)
{
    const char *value = gb_port_environment("GLEBE_SNAPSHOT");
    char beside[GB_TEXT_NAME_BYTES];
    int error;
    if (!value || !*value)
        return;
    if (!snapshot_parse(value)) {
        gb_option_complain("malformed", "GLEBE_SNAPSHOT", value, "FILE@N%, N from 1 to 100, or FILE@SIZE");
        return;
    }
    int file = snapshot_create(beside, &error);
    if (file < 0) {
        snapshot_end(error);
        return;
    }
    gb_port_finish(file, beside, NULL);
    if (GB_SAMPLES && gb_the.options.profile_bytes)
        glebe_profile_start(0);
    gb_the.watch.look = snapshot_due;
    gb_store_relaxed(&gb_the.watch.from_not, ~(size_t)1);
}

#endif
