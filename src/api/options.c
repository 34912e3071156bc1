/* Options: one table feeds the parser, the environment and the message about a wrong one. */

#include "api.h"

typedef struct gb_option {
    const char *name, *environment;
    enum { OPTION_FLAG, OPTION_OFF, OPTION_STATS, OPTION_ERROR, OPTION_PURGE, OPTION_MS, OPTION_BYTES } kind;
    void *value;
} gb_option;

static const char *const option_wants[] = {"0 or 1", "0 or 1", "0, 1 or json", "abort or count", "dontneed or free",
    "milliseconds, at most 1073741823", "bytes, or K, M, G"};

static const gb_option options[] = {
    {"verbose", "GLEBE_VERBOSE", OPTION_FLAG, &gb_the.options.verbose},
    {"stats", "GLEBE_STATS", OPTION_STATS, &gb_the.options.stats},
    {"background", "GLEBE_BACKGROUND", OPTION_FLAG, &gb_the.options.background},
    {"huge_pages", "GLEBE_HUGE_PAGES", OPTION_OFF, &gb_the.options.no_huge_pages},
    {"limit", "GLEBE_LIMIT", OPTION_BYTES, &gb_the.options.limit},
    {"purge", "GLEBE_PURGE", OPTION_PURGE, &gb_the.options.purge_lazily},
    {"purge_ms", "GLEBE_PURGE_MS", OPTION_MS, &gb_the.options.purge_ms},
    {"on_error", "GLEBE_ON_ERROR", OPTION_ERROR, &gb_the.options.on_error},
    {"deepbind", "GLEBE_DEEPBIND", OPTION_FLAG, &gb_the.options.deepbind},
};
enum { OPTIONS = sizeof options / sizeof options[0] };

/* A decimal number of at most `most`, with a suffix K, M or G where `bytes`. */
static bool option_number(const char *text, bool bytes, uint64_t most, uint64_t *value)
{
    uint64_t n = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, (uint64_t)(*p - '0'), &n))
            return false;
    if (p == text)
        return false;
    unsigned shift = !bytes ? 0 : *p == 'K' ? 10 : *p == 'M' ? 20 : *p == 'G' ? 30 : 0;
    p += shift != 0;
    if (*p != 0 || n > most >> shift)
        return false;
    *value = n << shift;
    return true;
}

static int option_set(const gb_option *option, const char *text)
{
    uint64_t n = 0;
    switch (option->kind) {
    case OPTION_STATS:
        if (strcmp(text, "json") == 0)
            n = 2;
        else if (!option_number(text, false, 1, &n))
            return EINVAL;
        break;
    case OPTION_ERROR:
        n = strcmp(text, "count") == 0;
        if (!n && strcmp(text, "abort") != 0)
            return EINVAL;
        break;
    case OPTION_PURGE:
        n = strcmp(text, "free") == 0;
        if (!n && strcmp(text, "dontneed") != 0)
            return EINVAL;
        break;
    case OPTION_OFF:
        if (!option_number(text, false, 1, &n))
            return EINVAL;
        n = !n;
        break;
    case OPTION_FLAG:
        if (!option_number(text, false, 1, &n))
            return EINVAL;
        break;
    case OPTION_MS:
        if (!option_number(text, false, UINT32_MAX / 4, &n))
            return EINVAL;
        n += n == 0; /* 0 would read as "not set" */
        break;
    case OPTION_BYTES:
        if (!option_number(text, true, GB_MAX_BYTES, &n))
            return EINVAL;
        break;
    }
    if (option->kind == OPTION_BYTES)
        *(size_t *)option->value = (size_t)n;
    else
        *(uint32_t *)option->value = (uint32_t)n;
    return 0;
}

/* What follows from options beyond their values. */
static void options_follow(void)
{
    if (gb_the.options.verbose || gb_the.options.stats)
        gb_port_keep_stderr();
    if (GB_THREADS && gb_the.options.background)
        gb_background_start();
}

int glebe_option(const char *name, const char *value)
{
    GB_ENTRY;
    if (!name || !value)
        return EINVAL;
    for (int i = 0; i < OPTIONS; i++)
        if (strcmp(options[i].name, name) == 0) {
            gb_lock_take(&gb_the.lock);
            int error = option_set(&options[i], value);
            gb_lock_drop(&gb_the.lock);
            options_follow();
            return error;
        }
    return ENOENT;
}

/* `wants`, if it is known: what the option takes. The value may be anything: it must not break the line. */
static void option_complain(const char *what, const char *name, const char *value, const char *wants)
{
    char line[256], shown[128];
    gb_plain(shown, sizeof shown, value, "");
    size_t n = gb_format(line, sizeof line, "glebe: %s %s=%s is ignored%s%s\n", what, name, shown,
        wants ? ": it takes " : "", wants ? wants : "");
    gb_port_print(line, n < sizeof line ? n : sizeof line - 1);
}

/* Is `entry` ("GLEBE_X=...") one of ours? Tools of ours set GLEBE_TOOL_..., and Windows' port reads one by itself. */
static bool option_known(const char *entry)
{
    for (int i = 0; i < OPTIONS; i++) {
        size_t length = strlen(options[i].environment);
        if (strncmp(entry, options[i].environment, length) == 0 && entry[length] == '=')
            return true;
    }
    static const char *const of_others[] = {"GLEBE_TOOL_", "GLEBE_LIBRARY", "GLEBE_LARGE_PAGES="};
    for (size_t i = 0; i < sizeof of_others / sizeof of_others[0]; i++)
        if (strncmp(entry, of_others[i], strlen(of_others[i])) == 0)
            return true;
    return false;
}

void gb_options_read(void)
{
    for (int i = 0; i < OPTIONS; i++) {
        const char *value = gb_port_environment(options[i].environment);
        if (value && *value && option_set(&options[i], value) != 0)
            option_complain("malformed", options[i].environment, value, option_wants[options[i].kind]);
    }
    char *const *environment = gb_port_environment_all();
    for (; environment && *environment; environment++)
        if (strncmp(*environment, "GLEBE_", 6) == 0 && !option_known(*environment)) {
            const char *equals = strchr(*environment, '=');
            char name[64];
            size_t length = equals ? (size_t)(equals - *environment) : strlen(*environment);
            length = length < sizeof name - 1 ? length : sizeof name - 1;
            memcpy(name, *environment, length);
            name[length] = 0;
            option_complain("unknown", name, equals ? equals + 1 : "", NULL);
        }
    options_follow();
}
