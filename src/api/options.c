/* Options: one table feeds the parser, the environment and the message about a malformed value. */

#include "api.h"

typedef struct gb_option {
    const char *name, *environment;
    enum {
        OPTION_LEVEL,
        OPTION_FLAG,
        OPTION_OFF,
        OPTION_STATS,
        OPTION_ERROR,
        OPTION_PURGE,
        OPTION_MS,
        OPTION_BYTES
    } kind;
    void *value;
} gb_option;

static const char *const option_wants[] = {"1, 2 or 3", "0 or 1", "0 or 1", "0, 1 or json", "abort or count",
    "dontneed or free", "milliseconds, at most 1073741823", "bytes, or a number with K, M, G or T"};

static const gb_option options[] = {
    {"verbose", "GLEBE_VERBOSE", OPTION_FLAG, &gb_the.options.verbose},
    {"stats", "GLEBE_STATS", OPTION_STATS, &gb_the.options.stats},
    {"background", "GLEBE_BACKGROUND", OPTION_FLAG, &gb_the.options.background},
    {"huge_pages", "GLEBE_HUGE_PAGES", OPTION_OFF, &gb_the.options.no_huge_pages},
    {"profile_bytes", "GLEBE_PROFILE_BYTES", OPTION_BYTES, &gb_the.options.profile_bytes},
    {"guard", "GLEBE_GUARD", OPTION_BYTES, &gb_the.options.guard_bytes},
    {"limit", "GLEBE_LIMIT", OPTION_BYTES, &gb_the.options.limit},
    {"purge", "GLEBE_PURGE", OPTION_PURGE, &gb_the.options.purge_lazily},
    {"purge_ms", "GLEBE_PURGE_MS", OPTION_MS, &gb_the.options.purge_ms},
    {"on_error", "GLEBE_ON_ERROR", OPTION_ERROR, &gb_the.options.on_error},
    {"secure", "GLEBE_SECURE", OPTION_LEVEL, &gb_the.options.secure},
    {"tags", "GLEBE_TAGS", OPTION_OFF, &gb_the.options.no_tags},
    {"deepbind", "GLEBE_DEEPBIND", OPTION_FLAG, &gb_the.options.deepbind},
};
enum { OPTIONS = sizeof options / sizeof options[0] };

/* Reads decimal digits at *text, and moves *text behind them. Returns false if there are none, or the number has over
 * 64 bits. */
static bool option_digits(const char **text, uint64_t *value)
{
    const char *p = *text;
    for (*value = 0; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(*value, 10, value) || __builtin_add_overflow(*value, (uint64_t)(*p - '0'), value))
            return false;
    bool any = p != *text;
    *text = p;
    return any;
}

/* Reads a text that is a decimal number of at most `most`. */
static bool option_number(const char *text, uint64_t most, uint64_t *value)
{
    uint64_t n;
    if (!option_digits(&text, &n) || *text || n > most)
        return false;
    *value = n;
    return true;
}

/* Returns the binary logarithm of the unit `text`: empty, B, K, KB, KiB, and so on up to T, in capitals or small
 * letters; -1 if it is no unit. */
static int option_unit(const char *text)
{
    enum { CASE = 'a' - 'A' };
    static const char letters[] = "KMGT";
    int log2 = 0;
    for (int i = 0; letters[i]; i++)
        if (*text && (*text & ~CASE) == letters[i])
            log2 = 10 * (i + 1);
    text += log2 != 0;
    if (log2 && (*text & ~CASE) == 'I' && (text[1] & ~CASE) == 'B')
        text++;
    text += (*text & ~CASE) == 'B';
    return *text ? -1 : log2;
}

/* A fraction needs a unit over one byte, and must not round to 0, which means "none". The command's parser
 * (cli/src/size.rs) accepts the same. */
bool gb_option_size(const char *text, uint64_t most, uint64_t *value)
{
    enum { DIGITS = 18 }; /* twice 10^18 fits 64 bits; further digits are less than 2^-19 bytes, even of a TiB */
    uint64_t whole, part = 0, one = 1;
    if (!option_digits(&text, &whole))
        return false;
    bool fraction = *text == '.';
    if (fraction) {
        const char *begin = ++text;
        for (; *text >= '0' && *text <= '9'; text++)
            if (text - begin < DIGITS) {
                part = 10 * part + (uint64_t)(*text - '0');
                one *= 10;
            }
        if (text == begin)
            return false;
    }
    int log2 = option_unit(text);
    if (log2 < 0 || (fraction && log2 == 0))
        return false;
    uint64_t bytes = 0; /* part / one of the unit: long division, in binary */
    for (int i = 0; i < log2; i++) {
        part *= 2;
        bytes = 2 * bytes + (part >= one);
        part -= part >= one ? one : 0;
    }
    if (bytes > most || whole > (most - bytes) >> log2 || (fraction && whole == 0 && bytes == 0))
        return false;
    *value = (whole << log2) + bytes;
    return true;
}

static int option_set(const gb_option *option, const char *text)
{
    uint64_t n = 0;
    switch (option->kind) {
    case OPTION_STATS:
        if (strcmp(text, "json") == 0)
            n = 2;
        else if (!option_number(text, 1, &n))
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
        if (!option_number(text, 1, &n))
            return EINVAL;
        n = !n;
        break;
    case OPTION_FLAG:
        if (!option_number(text, 1, &n))
            return EINVAL;
        break;
    case OPTION_LEVEL:
        if (!option_number(text, 3, &n) || n == 0)
            return EINVAL;
        break;
    case OPTION_MS:
        if (!option_number(text, UINT32_MAX / 4, &n))
            return EINVAL;
        n += n == 0; /* 0 would read as "not set" */
        break;
    case OPTION_BYTES:
        if (!gb_option_size(text, GB_MAX_BYTES, &n))
            return EINVAL;
        break;
    }
    if (option->kind == OPTION_BYTES)
        *(size_t *)option->value = (size_t)n;
    else
        *(uint32_t *)option->value = (uint32_t)n;
    return 0;
}

/* Acts on options whose value alone has no effect. The environment is meant for many programs. Some that use little
 * memory make system calls that need a process of one thread (unshare, setpriv), so there the thread starts later. */
static void options_follow(bool by_program)
{
    if (gb_the.options.verbose || gb_the.options.stats)
        gb_port_keep_stderr();
    if (GB_THREADS && gb_the.options.background) {
        if (by_program)
            gb_background_start();
        else
            gb_store(&gb_the.background_state, GB_BACKGROUND_LATE);
    }
    if (GB_SECURE)
        gb_the.tail_few = gb_secure_level() < GB_SECURE_MOST ? SECURE_FEW : 0;
}

/* Guards blocks as the option says. Returns false if this build, or this process, cannot: then none are guarded. */
static bool options_guard(void)
{
    size_t bytes = gb_the.options.guard_bytes;
    bool guards = bytes == 0 || !GB_THREADS; /* in linear memory the option is ignored, like others of hosts */
#if GB_GUARDS
    guards = bytes == gb_load_relaxed(&gb_the.guards.every_bytes) || gb_sampler_guard(bytes);
#endif
    if (GB_THREADS && !guards)
        gb_the.options.guard_bytes = 0;
    return guards;
}

void gb_guard_begin(void)
{
    static const char build[] = "glebe: GLEBE_GUARD is ignored: only the default build on Linux guards blocks\n",
                      space[] = "glebe: GLEBE_GUARD is ignored: there is no address space for guarded blocks\n";
    if (GB_THREADS && !options_guard())
        gb_port_print(GB_GUARDS ? space : build, GB_GUARDS ? sizeof space - 1 : sizeof build - 1);
}

int glebe_option(const char *name, const char *value)
{
    GB_ENTRY;
    if (!name || !value)
        return EINVAL;
    for (int i = 0; i < OPTIONS; i++)
        if (strcmp(options[i].name, name) == 0) {
            if (options[i].kind == OPTION_LEVEL || options[i].value == &gb_the.options.no_tags)
                return EBUSY; /* blocks are as they were at the start */
            gb_lock_take(&gb_the.lock);
            int error = option_set(&options[i], value);
            gb_lock_drop(&gb_the.lock);
            options_follow(true);
            return error || options_guard() ? error : GB_GUARDS ? ENOMEM : ENOSYS;
        }
    return ENOENT;
}

/* The value may be any text, so characters that would break the line become ?. */
void gb_option_complain(const char *what, const char *name, const char *value, const char *wants)
{
    char line[256], plain_name[64], shown[128];
    gb_plain(plain_name, sizeof plain_name, name, "");
    gb_plain(shown, sizeof shown, value, "");
    size_t n = gb_format(line, sizeof line, "glebe: %s %s=%s is ignored%s%s\n", what, plain_name, shown,
        wants ? ": it takes " : "", wants ? wants : "");
    gb_port_print(line, n < sizeof line ? n : sizeof line - 1);
}

/* Returns whether `entry` ("GLEBE_X=...") is an option, or a variable that glebe's tools or the Windows port read. */
static bool option_known(const char *entry)
{
    for (int i = 0; i < OPTIONS; i++) {
        size_t length = strlen(options[i].environment);
        if (strncmp(entry, options[i].environment, length) == 0 && entry[length] == '=')
            return true;
    }
    static const char *const of_others[] = {"GLEBE_TOOL_", "GLEBE_LIBRARY", "GLEBE_LARGE_PAGES=", "GLEBE_PROFILE=",
        "GLEBE_SNAPSHOT=", "GLEBE_REPORT="};
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
            gb_option_complain("malformed", options[i].environment, value, option_wants[options[i].kind]);
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
            gb_option_complain("unknown", name, equals ? equals + 1 : "", NULL);
        }
    options_follow(false);
}
