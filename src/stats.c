/* Statistics: kept in `glebe_live` as they change, under the region's lock; read, printed and told at exit from the one list in
 * glebe.h. */
#include "core.h"

#define STAT_COUNT(name, unit, meaning) +1
struct glebe_live glebe_live = {GLEBE_LIVE_MAGIC, 1, sizeof(struct glebe_live), 0 GLEBE_STATS(STAT_COUNT), {0}};

#define STAT_NAME(name, unit, meaning) #name "\0"
const char glebe_live_names[] = GLEBE_STATS(STAT_NAME);

void glebe_stats_read(glebe_stats *out)
{
    gb_lock_take(&gb_the.lock);
    glebe_live.stats.table_bytes
        = gb_the.table_committed + gb_the.chunk_table_committed + gb_the.heaps_committed + gb_the.slots_committed;
    *out = glebe_live.stats;
    gb_lock_drop(&gb_the.lock);
}

/* Appends to a buffer that may be too short, as snprintf would. */
#define STAT_PUT(...) at += gb_format(buffer + (at < bytes ? at : bytes), at < bytes ? bytes - at : 0, __VA_ARGS__)

size_t glebe_stats_text(char *buffer, size_t bytes)
{
    glebe_stats s;
    size_t at = 0;
    glebe_stats_read(&s);
#define STAT_LINE(name, unit, meaning) STAT_PUT("%s %s %s\n", #name ":", gb_decimal(s.name, (char[24]){0}), unit[0] == 'b' ? unit : "");
    STAT_PUT("glebe %u.%u.%u statistics\n", GLEBE_VERSION_MAJOR, GLEBE_VERSION_MINOR, GLEBE_VERSION_PATCH);
    GLEBE_STATS(STAT_LINE)
    return at;
}

size_t glebe_stats_json(char *buffer, size_t bytes)
{
    glebe_stats s;
    size_t at = 0;
    glebe_stats_read(&s);
#define STAT_FIELD(name, unit, meaning) STAT_PUT("%s\"%s\": %s", at > 1 ? ", " : "", #name, gb_decimal(s.name, (char[24]){0}));
    STAT_PUT("{");
    GLEBE_STATS(STAT_FIELD)
    STAT_PUT("}");
    return at;
}

static void stats_say(size_t (*make)(char *, size_t))
{
    char text[4096];
    size_t n = make(text, sizeof text - 1);
    n = n < sizeof text - 1 ? n : sizeof text - 2;
    if (n && text[n - 1] != '\n')
        text[n++] = '\n';
    gb_port_print(text, n);
}

void gb_say_at_exit(void)
{
    if (gb_the.options.verbose) {
        glebe_stats s;
        char line[256];
        glebe_stats_read(&s);
        size_t n = gb_format(line, sizeof line, "glebe %u.%u.%u was active: at most %zu KiB in use, %zu pages, %zu KiB given back, %zu errors\n",
            GLEBE_VERSION_MAJOR, GLEBE_VERSION_MINOR, GLEBE_VERSION_PATCH, (size_t)(s.peak_used_bytes >> 10),
            (size_t)s.pages_taken, (size_t)(s.purged_bytes >> 10), (size_t)s.errors);
        gb_port_print(line, n);
    }
    if (gb_the.options.stats)
        stats_say(gb_the.options.stats == 2 ? glebe_stats_json : glebe_stats_text);
}
