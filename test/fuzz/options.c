/* Fuzzes the option parser: the input is the environment and a call of glebe_option. For every input, options keep
 * valid values, and every printed line is whole.
 *
 * With -DFUZZ_PLANT the target forgets that a limit may have a suffix: test/fuzz/run requires that the fuzzer finds
 * this. */
#include "fuzz.h"

static void well(void)
{
    const gb_options *o = &gb_the.options;
    REQUIRE(o->verbose <= 1 && o->stats <= 2 && o->background <= 1 && o->on_error <= 1 && o->purge_lazily <= 1);
    REQUIRE(o->purge_ms <= UINT32_MAX / 4 && o->limit <= GB_MAX_BYTES);
}

/* NULs separate the entries. An entry without a prefix gets ours, so that most entries are meaningful. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static char text[8][700];
    char *environment[9] = {NULL};
    int count = 0;
    fixture_start(1);
    for (size_t at = 0; at < bytes && count < 8; count++) {
        size_t n = 0;
        const char *prefix = data[at] == 'G' ? "" : "GLEBE_";
        memcpy(text[count], prefix, strlen(prefix) + 1);
        n = strlen(prefix);
        for (; at < bytes && data[at] && n + 1 < sizeof text[0]; at++)
            text[count][n++] = (char)data[at];
        text[count][n] = 0;
        environment[count] = text[count];
        at += at < bytes && data[at] == 0;
    }
    fake.environment = environment;
    gb_options_read();
    well();
    REQUIRE(fake.printed_bytes == 0 || fake.printed[fake.printed_bytes - 1] == '\n' || fake.printed_bytes >= 255);
    for (int i = 0; i < count; i++) {
        char *equals = strchr(text[i], '=');
        if (!equals)
            continue;
        *equals = 0;
        for (char *p = text[i]; *p; p++)
            *p = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p);
        gb_options before = gb_the.options;
        int error = glebe_option(strncmp(text[i], "glebe_", 6) == 0 ? text[i] + 6 : text[i], equals + 1);
        REQUIRE(error == 0 || error == EINVAL || error == ENOENT);
        REQUIRE(error == 0 || memcmp(&before, &gb_the.options, sizeof before) == 0);
        well();
#ifdef FUZZ_PLANT
        REQUIRE(error != 0 || strcmp(text[i] + 6, "limit") != 0 || strchr(equals + 1, 'K') == NULL);
#endif
    }
    return 0;
}
