/* Options: every name with good and bad values, the environment, and the messages about wrong values. */
#include "fixture.h"

static const struct {
    const char *name, *value;
    int error;
    uint64_t means;
} cases[] = {
    {"verbose", "0", 0, 0}, {"verbose", "1", 0, 1}, {"verbose", "2", EINVAL, 1}, {"verbose", "", EINVAL, 1},
    {"verbose", "yes", EINVAL, 1}, {"verbose", "01", 0, 1}, {"verbose", " 1", EINVAL, 1}, {"verbose", "-1", EINVAL, 1},
    {"stats", "1", 0, 1}, {"stats", "json", 0, 2}, {"stats", "jso", EINVAL, 2}, {"stats", "2", EINVAL, 2},
    {"stats", "0", 0, 0},
    {"purge_ms", "250", 0, 250}, {"purge_ms", "0", 0, 1}, {"purge_ms", "1K", EINVAL, 1},
    {"purge_ms", "5000000000", EINVAL, 1},
    {"purge_ms", "1073741823", 0, 1073741823}, {"purge_ms", "1073741824", EINVAL, 1073741823},
    {"limit", "0", 0, 0}, {"limit", "4096", 0, 4096}, {"limit", "3K", 0, 3 << 10}, {"limit", "3M", 0, 3 << 20},
    {"limit", "5k", 0, 5 << 10}, {"limit", "6KB", 0, 6 << 10}, {"limit", "7KiB", 0, 7 << 10},
    {"limit", "8mib", 0, 8 << 20},
    {"limit", "9B", 0, 9}, {"limit", "1.5G", 0, 3u << 29}, {"limit", "0.5M", 0, 1 << 19},
    {"limit", "0.5gIb", 0, 1 << 29},
    {"limit", "1.0K", 0, 1 << 10}, {"limit", "0.0009765625K", 0, 1}, {"limit", "0.001953124K", 0, 1},
    {"limit", "1.999G", 0, 2146409906},
    {"limit", "1.999999999999999999999999999999999999K", 0, 2047}, {"limit", "00001.50M", 0, 3 << 19},
    {"limit", "1.", EINVAL, 3 << 19}, {"limit", ".5", EINVAL, 3 << 19}, {"limit", "1.5", EINVAL, 3 << 19},
    {"limit", "1.5B", EINVAL, 3 << 19},
    {"limit", "1.G", EINVAL, 3 << 19}, {"limit", ".5G", EINVAL, 3 << 19}, {"limit", ".", EINVAL, 3 << 19},
    {"limit", "1.5.5G", EINVAL, 3 << 19},
    {"limit", "0.0009K", EINVAL, 3 << 19}, {"limit", "0.0G", EINVAL, 3 << 19}, {"limit", "1 G", EINVAL, 3 << 19},
    {"limit", "1GG", EINVAL, 3 << 19},
    {"limit", "1Gi", EINVAL, 3 << 19}, {"limit", "1iB", EINVAL, 3 << 19}, {"limit", "1BB", EINVAL, 3 << 19},
    {"limit", "1GBx", EINVAL, 3 << 19},
    {"limit", "1E", EINVAL, 3 << 19}, {"limit", "1,5G", EINVAL, 3 << 19}, {"limit", "1\x0b", EINVAL, 3 << 19},
    {"limit", "1\x02", EINVAL, 3 << 19},
    {"limit", "1G", 0, 1 << 30}, {"limit", "K", EINVAL, 1 << 30}, {"limit", "B", EINVAL, 1 << 30},
    {"limit", "", EINVAL, 1 << 30},
    {"limit", "99999999999999999999", EINVAL, 1 << 30}, {"limit", "18446744073709551616", EINVAL, 1 << 30},
    {"limit", "9999999999999G", EINVAL, 1 << 30}, {"limit", "8388608T", EINVAL, 1 << 30},
    {"limit", "8388608.0T", EINVAL, 1 << 30},
    {"on_error", "count", 0, 1}, {"on_error", "abort", 0, 0}, {"on_error", "ignore", EINVAL, 0},
    {"on_error", "", EINVAL, 0},
    {"purge", "free", 0, 1}, {"purge", "1", EINVAL, 1}, {"purge", "dontneed", 0, 0}, {"purge", "FREE", EINVAL, 0},
    {"purge", "", EINVAL, 0},
    {"deepbind", "1", 0, 1}, {"deepbind", "0", 0, 0}, {"deepbind", "no", EINVAL, 0},
    {"background", "0", 0, 0}, {"background", "x", EINVAL, 0},
    {"huge_pages", "0", 0, 1}, {"huge_pages", "1", 0, 0}, {"huge_pages", "2", EINVAL, 0},
    {"", "1", ENOENT, 0}, {"Verbose", "1", ENOENT, 0}, {"purges", "1", ENOENT, 0},
};

static void test_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (glebe_option(cases[i].name, cases[i].value) != cases[i].error)
            fail_msg("%s=%s", cases[i].name, cases[i].value);
        uint64_t is;
        if (fixture_option(cases[i].name, &is) && is != cases[i].means)
            fail_msg("%s=%s means %llu", cases[i].name, cases[i].value, (unsigned long long)is);
    }
    assert_int_equal(glebe_option("verbose", NULL), EINVAL);
    assert_int_equal(glebe_option(NULL, "1"), EINVAL);
    fixture_printed("");
}

/* Sizes that only hosts with 64-bit pointers accept, up to the largest. */
static void test_large_sizes(void **state)
{
    (void)state;
    if (sizeof(size_t) < 8)
        return;
    static const struct {
        const char *text;
        uint64_t means;
    } large[] = {
        {"2T", UINT64_C(2) << 40}, {"1.5T", UINT64_C(3) << 39}, {"1.999999999T", 2199023254452}, {"0.000000000001T", 1},
        {"9223372036854775807", INT64_MAX}, {"8388607.9999999999999T", INT64_MAX},
        {"8388607.999999999999T", INT64_MAX - 1},
        {"8388607.99999999999999999999T", INT64_MAX},
    };
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
        assert_int_equal(glebe_option("limit", large[i].text), 0);
        if (gb_the.options.limit != large[i].means)
            fail_msg("limit=%s means %llu", large[i].text, (unsigned long long)gb_the.options.limit);
    }
    assert_int_equal(glebe_option("limit", "9223372036854775808"), EINVAL);
}

static void test_environment(void **state)
{
    (void)state;
    char *const environment[] = {"GLEBE_LIMIT=5M", "PATH=/bin", "GLEBE_STATS=json", "GLEBE_PURGE_MS=soon",
        "GLEBE_LIMITS=3", "GLEBE_TOOL_X=1", "GLEBE_LIBRARY_DIR=/x", "GLEBE_", "GLEBEX=1", NULL};
    fake.environment = environment;
    gb_options_read();
    assert_int_equal(gb_the.options.limit, 5 << 20);
    assert_int_equal(gb_the.options.stats, 2);
    assert_true(fake.stderr_kept); /* while it is still there */
    assert_int_equal(gb_the.options.purge_ms, 0); /* unchanged: the region sets the default */
    fixture_printed("glebe: malformed GLEBE_PURGE_MS=soon is ignored: it takes milliseconds, at most 1073741823\n"
                    "glebe: unknown GLEBE_LIMITS=3 is ignored\n"
                    "glebe: unknown GLEBE_= is ignored\n");
    assert_non_null(glebe_malloc(1));
    assert_int_equal(gb_the.options.purge_ms, GB_PURGE_MS);
}

static void test_long_names_are_cut(void **state)
{
    (void)state;
    char line[600];
    memset(line, 'X', sizeof line);
    memcpy(line, "GLEBE_", 6);
    line[sizeof line - 1] = 0;
    char *const environment[] = {line, NULL};
    fake.environment = environment;
    gb_options_read();
    assert_in_range(fake.printed_bytes, 30, 256);
    assert_int_equal(strncmp(fake.printed, "glebe: unknown GLEBE_XXX", 24), 0);
}

static void test_background_by_environment(void **state)
{
    (void)state;
    char *const environment[] = {"GLEBE_BACKGROUND=1", NULL};
    fake.environment = environment;
    gb_options_read();
    assert_false(fake.stderr_kept);
    for (int i = 0; i < 1000; i++)
        assert_non_null(glebe_malloc((size_t)i));
    assert_null(fake.thread); /* for system calls that need a process of one thread */
    size_t bytes = 0;
    for (; !fake.thread && bytes < 4 * GB_BACKGROUND_FROM; bytes += 3000) {
        assert_non_null(glebe_malloc(3000));
        fake.now_ms++;
    }
    assert_in_range(bytes, GB_BACKGROUND_FROM / 2, 2 * GB_BACKGROUND_FROM);
}

/* Its only request, in the first millisecond. */
static void test_background_of_a_large_block(void **state)
{
    (void)state;
    char *const environment[] = {"GLEBE_BACKGROUND=1", NULL};
    fake.environment = environment;
    gb_options_read();
    assert_non_null(glebe_malloc(GB_BACKGROUND_FROM));
    assert_non_null(fake.thread);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_table),
        FIXTURE_TEST(test_large_sizes),
        FIXTURE_TEST(test_environment),
        FIXTURE_TEST(test_long_names_are_cut),
        FIXTURE_TEST(test_background_by_environment),
        FIXTURE_TEST(test_background_of_a_large_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
