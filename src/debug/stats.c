/* Statistics: reads them, sums up the blocks in use, and prints. base/state.c holds them as they change. */
#include "debug.h"

void glebe_stats_read(glebe_stats *out)
{
    GB_ENTRY;
    gb_lock_take(&gb_the.lock);
    if (GB_TAGGED)
        gb_account_kept();
    *out = glebe_live.stats;
    out->used_bytes = gb_held();
    if (GB_TAGGED)
        out->large_bytes = out->used_bytes - out->small_bytes;
    gb_lock_drop(&gb_the.lock);
}

/* ---- blocks in use ---- */

/* Returns the bytes of a block of this page, in the mean if it mixes classes. */
static size_t stats_block_bytes(const gb_page *page, uint32_t cls)
{
    return GB_MIXES && cls == GB_MIXED ? gb_mixed_mean(page) : cls < GB_CLASSES ? gb_classes[cls].bytes : 0;
}

/* Returns the bytes of a page's blocks that are in use, on the thread free list of its heap, or in slots of other
 * threads that freed them. The owner thread may change the page meanwhile, so the fields may not fit together: the
 * result is at most the page's size. */
static size_t page_used(const gb_page *page)
{
    size_t all = gb_page_bytes(page);
    uint32_t cls = page->cls, out;
    if (!GB_TAGGED && page->kind == GB_MEDIUM)
        return cls < GB_CLASSES && !gb_page_purged(page)
            ? (page->cap - gb_popcount32(gb_load_relaxed(&page->bits))) * (size_t)gb_classes[cls].bytes
            : 0;
    if (page->kind != GB_SMALL)
        return all;
    gb_page seen = {.cap = page->cap,
        .cls = cls < GB_CLASSES ? (uint8_t)cls : 0, /* another thread may be formatting it */
        .left = __atomic_load_n(&page->left, __ATOMIC_RELAXED),
        .state = __atomic_load_n(&page->state, __ATOMIC_RELAXED),
        .mark = __atomic_load_n(&page->mark, __ATOMIC_RELAXED)};
    out = gb_page_out(&seen);
    out -= GB_THREADS ? GB_XFREE_COUNT(gb_load_relaxed(&page->xfree)) : 0;
    if ((int32_t)out <= 0)
        return 0;
    size_t bytes = stats_block_bytes(page, cls);
    return out <= all / 16 && out * bytes <= all ? out * bytes : all;
}

/* Returns the bytes of free blocks that this heap holds, and that page_used counts as in use. */
static size_t heap_at_hand(const glebe_heap *heap)
{
    size_t bytes = 0;
    for (uint32_t cls = 0; cls < GB_SMALL_CLASSES; cls++) {
        for (gb_block *block = gb_block_or_null(heap->front[cls]); block; block = gb_link_get(block))
            bytes += gb_classes[cls].bytes;
        for (gb_block *block = GB_BORROWS ? heap->borrowed[cls].first : NULL; block; block = gb_link_get(block))
            bytes += gb_classes[cls].bytes;
    }
    for (uint32_t i = 0; i < GB_CLASSES - GB_SMALL_CLASSES; i++)
        bytes += heap->warm[i] ? gb_classes[GB_SMALL_CLASSES + i].bytes : 0;
    for (const gb_remote *slot = heap->remote; slot < heap->remote + GB_REMOTE_SLOTS; slot++)
        if (slot->page.n)
            bytes += slot->count * stats_block_bytes(gb_page_at(slot->page), gb_page_at(slot->page)->cls);
    return bytes;
}

/* Sums up the blocks in use of all pages; with `sums` also by class. */
GB_INLINE size_t stats_walk(gb_class_sum *sums)
{
    enum { AT_ONCE = 128 };
    size_t bytes = 0;
    for (uint32_t i = 0; i < gb_load_relaxed(&gb_the.slices);) {
        gb_lock_take(&gb_the.lock);
        for (uint32_t end = i + AT_ONCE; i < end && i < gb_load_relaxed(&gb_the.slices);) {
            const gb_page *page = gb_entry_at(i);
            page = page->kind == GB_FREE && gb_large_in(i) ? gb_large_in(i) : page;
            bool run = page->kind != GB_FREE && page->kind != GB_RESERVED;
            size_t used = run ? page_used(page) : 0;
            bytes += used;
            if (sums && run) {
                bool classed = (page->kind == GB_SMALL || page->kind == GB_MEDIUM) && page->cls < GB_CLASSES;
                gb_class_sum *sum = sums + (classed ? page->cls : page->kind == GB_SMALL ? GB_CLASSES : GB_CLASSES + 1);
                sum->live_bytes += used;
                sum->held_bytes += gb_page_bytes(page);
            }
            i += run && page->slices ? page->slices : 1;
        }
        gb_lock_drop(&gb_the.lock);
    }
    return bytes;
}

#if GB_SNAPSHOTS
void gb_blocks_by_class(gb_class_sum sums[GB_CLASS_SUMS])
{
    memset(sums, 0, GB_CLASS_SUMS * sizeof sums[0]);
    stats_walk(sums);
    sums[GB_CLASSES + 1].live_bytes += glebe_live.stats.huge_bytes;
    sums[GB_CLASSES + 1].held_bytes += glebe_live.stats.huge_bytes;
}
#endif

size_t gb_blocks_bytes(void)
{
    GB_ENTRY;
    size_t bytes = stats_walk(NULL), at_hand;
    if (GB_TAGGED)
        bytes += gb_the.linear.used - gb_the.linear.warm_bytes;
    at_hand = heap_at_hand(gb_self);
    return bytes > at_hand ? bytes - at_hand : 0;
}

/* ---- output: one text and one JSON object, wherever statistics are printed ----
 *
 *     glebe: ls[4711]: statistics
 *       committed_bytes           2.0 MiB       KiB below 1 MiB, rounded down
 *       purges                      3           a count
 *
 *     {"program": "ls", "pid": 4711, "committed_bytes": 2097152, ... "purges": 3, ...}
 *
 * The command prints the same text from the statistics that it reads (cli/src/linux/statistics.rs). */

enum { STATS_PROGRAM_BYTES = 64, STATS_NAME_COLUMNS = 20, STATS_VALUE_COLUMNS = 9, STATS_BYTES = 4096 };

/* The i-th statistic: all fields of the struct have one type, in the order of the names. */
static uint64_t stats_value(const glebe_stats *stats, int i)
{
    return ((const uint64_t *)(const void *)stats)[i];
}

/* The program's name, without characters that would break a line or a JSON string. */
static const char *stats_program(char out[STATS_PROGRAM_BYTES])
{
    gb_plain(out, STATS_PROGRAM_BYTES, gb_port_program(), "\"\\");
    return out;
}

/* A value as the text shows it: writes its digits to `out`, and returns the unit. */
static const char *stats_shown(const char *name, uint64_t value, char out[24])
{
    size_t length = strlen(name);
    if (length < 6 || strcmp(name + length - 6, "_bytes") != 0) {
        gb_decimal(value, out);
        return "";
    }
    unsigned log2 = value >> 20 ? 20 : 10;
    gb_decimal(value >> log2, out);
    length = strlen(out);
    out[length] = '.';
    gb_decimal(((value & ((UINT64_C(1) << log2) - 1)) * 10) >> log2, out + length + 1);
    return log2 == 20 ? " MiB" : " KiB";
}

static const char *stats_blanks(size_t length, size_t columns)
{
    static const char blanks[] = "                    ";
    return blanks + sizeof blanks - 1 - (length < columns ? columns - length : 0);
}

/* Returns the length of the whole text, as snprintf does; cuts text that does not fit. */
static size_t stats_print(char *buffer, size_t bytes, bool json)
{
    glebe_stats s;
    char program[STATS_PROGRAM_BYTES], digits[24];
    glebe_stats_read(&s);
    size_t at = gb_format(buffer, bytes,
        json ? "{\"program\": \"%s\", \"pid\": %u" : "glebe: %s[%u]: statistics" GB_COPY "\n", stats_program(program),
        gb_port_process());
    int i = 0;
    for (const char *name = glebe_live_names; *name; name += strlen(name) + 1, i++) {
        char *out = buffer + (at < bytes ? at : bytes);
        size_t room = at < bytes ? bytes - at : 0;
        if (json) {
            at += gb_format(out, room, ", \"%s\": %s", name, gb_decimal(stats_value(&s, i), digits));
            continue;
        }
        const char *unit = stats_shown(name, stats_value(&s, i), digits);
        at += gb_format(out, room, "  %s%s%s%s%s\n", name, stats_blanks(strlen(name), STATS_NAME_COLUMNS),
            stats_blanks(strlen(digits), STATS_VALUE_COLUMNS), digits, unit);
    }
    return at + (json ? gb_format(buffer + (at < bytes ? at : bytes), at < bytes ? bytes - at : 0, "}") : 0);
}

size_t glebe_stats_text(char *buffer, size_t bytes)
{
    return stats_print(buffer, bytes, false);
}

size_t glebe_stats_json(char *buffer, size_t bytes)
{
    return stats_print(buffer, bytes, true);
}

/* ---- at exit: many processes may share a stderr, so each prints its name ---- */

/* Prints the statistics in one write, so that no lines of other processes come between. If the command sets
 * GLEBE_TOOL_STATS, appends them to that file. */
void gb_stats_say(void)
{
    char text[STATS_BYTES];
    const char *file = gb_port_environment("GLEBE_TOOL_STATS");
    bool collected = file && *file, json = collected || gb_the.options.stats == 2;
    for (;;) {
        size_t n = stats_print(text, sizeof text - 1, json);
        n = n < sizeof text - 2 ? n : sizeof text - 2;
        if (json)
            text[n++] = '\n';
        if (!collected) {
            gb_port_say(text, n);
            return;
        }
        if (gb_port_append(file, text, n))
            return;
        collected = false;
        json = gb_the.options.stats == 2;
    }
}

#define VERBOSE(beside) \
    "glebe: %s[%u]: version %u.%u.%u" GB_COPY " was active" beside \
    ": at most %s%s in use, %s%s purged, %zu errors%s" GB_MADE_OF "\n"

/* A runtime's copy (GB_COPY) has its blocks from its own functions, so it does not matter whose malloc is. */
void gb_verbose_say(void)
{
    bool beside = sizeof GB_COPY == 1 && gb_port_malloc_elsewhere();
    glebe_stats s;
    char text[320], program[STATS_PROGRAM_BYTES], peak[24], purged[24];
    glebe_stats_read(&s);
    const char *peak_unit = stats_shown("_bytes", s.peak_used_bytes, peak),
               *purged_unit = stats_shown("_bytes", s.purged_bytes, purged);
    size_t n = gb_format(text, sizeof text, beside ? VERBOSE(" beside another malloc") : VERBOSE(""),
        stats_program(program), gb_port_process(), GLEBE_VERSION_MAJOR, GLEBE_VERSION_MINOR, GLEBE_VERSION_PATCH,
        peak, peak_unit, purged, purged_unit, (size_t)s.errors,
        GB_AUDIT          ? "; audit build"
            : gb_the.tags ? "; secure build, memory tags"
            : GB_SECURE   ? "; secure build"
            : GB_SAFE     ? "; safe build"
                          : "");
    gb_port_say(text, n < sizeof text ? n : sizeof text - 1);
}
