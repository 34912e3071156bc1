/* Statistics: the one list in the struct, in the text, in the JSON and in glebe_live; cut output; and that the numbers
 * are true. */
#include "fixture.h"

static const char *const names[] = {
#define NAME(name, unit, meaning) #name,
    GLEBE_STATS(NAME)};
enum { NAMES = sizeof names / sizeof names[0] };

/* An outside program reads glebe_live from memory, without a call. */
static void test_tables_count_as_they_grow(void **state)
{
    (void)state;
    assert_non_null(glebe_malloc(1));
    uint64_t before = glebe_live.stats.table_bytes;
    assert_true(before > 0);
    for (int i = 0; i < 40; i++)
        assert_non_null(glebe_malloc(1 << 20));
    assert_true(glebe_live.stats.table_bytes > before);
    fixture_balance();
}

static void test_live_has_every_name(void **state)
{
    (void)state;
    const char *at = glebe_live_names;
    for (int i = 0; i < NAMES; i++, at += strlen(at) + 1)
        assert_string_equal(at, names[i]);
    assert_string_equal(at, "");
    /* the command finds them by the first two without symbols */
    assert_string_equal(glebe_live_names, "committed_bytes");
    assert_string_equal(glebe_live_names + sizeof "committed_bytes", "used_bytes");
    assert_int_equal(glebe_live.magic, GLEBE_LIVE_MAGIC);
    assert_int_equal(glebe_live.count, NAMES);
    assert_int_equal(glebe_live.size_bytes, sizeof glebe_live);
    assert_int_equal(sizeof(glebe_stats), NAMES * sizeof(uint64_t));
}

static const char *expect(const char *at, const char *text)
{
    if (strncmp(at, text, strlen(text)) != 0)
        fail_msg("expected %s at %s", text, at);
    return at + strlen(text);
}

static void test_json(void **state)
{
    (void)state;
    char text[4096];
    assert_non_null(glebe_malloc(100000));
    size_t length = glebe_stats_json(text, sizeof text);
    assert_int_equal(length, strlen(text));
    glebe_stats s;
    glebe_stats_read(&s);
    uint64_t values[NAMES];
    memcpy(values, &s, sizeof s);
    const char *at = expect(text, "{\"program\": \"\", \"pid\": 4711");
    for (int i = 0; i < NAMES; i++) {
        char *end;
        at = expect(at, ", \"");
        at = expect(at, names[i]);
        at = expect(at, "\": ");
        assert_int_equal(strtoull(at, &end, 10), values[i]);
        assert_true(end > at);
        at = end;
    }
    assert_string_equal(at, "}");
}

static void test_text(void **state)
{
    (void)state;
    char text[4096];
    fake.program = "prog";
    glebe_live.stats.errors = 12345;
    glebe_live.stats.purged_bytes = 1023;
    glebe_live.stats.huge_page_bytes = (1 << 20) - 1;
    glebe_live.stats.table_bytes = 1 << 20;
    glebe_live.stats.committed_bytes = UINT64_MAX;
    size_t length = glebe_stats_text(text, sizeof text);
    assert_int_equal(length, strlen(text));
    const char *at = expect(text, "glebe: prog[4711]: statistics\n");
    for (int i = 0; i < NAMES; i++) { /* one line each, in the order of the list */
        at = expect(expect(at, "  "), names[i]);
        at = strchr(at, '\n') + 1;
    }
    assert_string_equal(at, "");
    /* wider than its column: not cut */
    assert_non_null(strstr(text, "\n  committed_bytes     17592186044415.9 MiB\n"));
    assert_non_null(strstr(text, "\n  used_bytes                0.0 KiB\n"));
    assert_non_null(strstr(text, "\n  purged_bytes              0.9 KiB\n"));
    assert_non_null(strstr(text, "\n  huge_page_bytes        1023.9 KiB\n"));
    assert_non_null(strstr(text, "\n  table_bytes               1.0 MiB\n"));
    assert_non_null(strstr(text, "\n  errors                  12345\n"));
    assert_non_null(strstr(text, "\n  huge_retained_bytes       0.0 KiB\n")); /* the longest name */
}

static void test_cut_as_snprintf_does(void **state)
{
    (void)state;
    char whole[4096], part[4096];
    size_t length = glebe_stats_json(whole, sizeof whole);
    assert_int_equal(glebe_stats_json(NULL, 0), length);
    for (size_t bytes = 1; bytes <= length + 2; bytes += bytes < 40 ? 1 : 31) {
        memset(part, 'x', sizeof part);
        assert_int_equal(glebe_stats_json(part, bytes), length);
        size_t kept = length < bytes - 1 ? length : bytes - 1;
        assert_int_equal(strlen(part), kept);
        assert_int_equal(strncmp(part, whole, kept), 0);
        assert_int_equal(part[bytes], 'x');
    }
}

static void test_numbers_are_true(void **state)
{
    (void)state;
    glebe_stats s;
    void *small = glebe_malloc(10), *medium = glebe_malloc(10000), *large = glebe_malloc(100000),
        *huge = glebe_malloc(2000000);
    glebe_heap *heap = glebe_heap_create(0);
    glebe_stats_read(&s);
    assert_int_equal(s.small_bytes, GB_SLICE_BYTES);
    assert_int_equal(s.medium_bytes, (size_t)gb_classes[gb_class_of(10000)].first_slices << GB_SLICE_LOG2);
    assert_int_equal(s.large_bytes, gb_round_up(100000, GB_SLICE_BYTES));
    assert_int_equal(s.huge_bytes, gb_round_up(2000000, fake.page_bytes));
    assert_int_equal(s.used_bytes, s.small_bytes + s.medium_bytes + s.large_bytes + s.huge_bytes);
    assert_int_equal(s.peak_used_bytes, s.used_bytes);
    assert_int_equal(s.heaps, 2);
    assert_int_equal(s.pages_taken, 3);
    fixture_balance();
    glebe_heap_destroy(heap);
    glebe_free(small);
    glebe_free(medium);
    glebe_free(large);
    glebe_free(huge);
    assert_int_equal(glebe_live.stats.huge_retained_bytes, gb_round_up(2000000, GB_GRANULE_BYTES));
    glebe_trim(NULL);
    glebe_stats_read(&s);
    assert_int_equal(s.used_bytes, 0);
    assert_int_equal(s.huge_retained_bytes, 0);
    assert_int_equal(s.heaps, 1);
    assert_int_equal(s.pages_returned, 3);
    /* memory committed ahead was not touched */
    assert_in_range(fake.purged_bytes - s.purged_bytes, 0, 2000000 / 8 + 4096);
}

static void test_what_is_said_at_exit(void **state)
{
    (void)state;
    fake.program = "prog";
    gb_say_at_exit();
    fixture_printed("");
    assert_false(fake.stderr_kept); /* no option asked for it */
    assert_non_null(glebe_malloc(10));
    glebe_option("stats", "json");
    assert_true(fake.stderr_kept);
    gb_say_at_exit();
    expect(fake.printed, "{\"program\": \"prog\", \"pid\": 4711, \"committed_bytes\": ");
    assert_string_equal(fake.printed + fake.printed_bytes - 2, "}\n");
    fake.printed_bytes = 0;
    glebe_option("stats", "1");
    gb_say_at_exit();
    char text[4096];
    assert_int_equal(glebe_stats_text(text, sizeof text), fake.printed_bytes);
    fixture_printed(text);
    glebe_option("stats", "0");
    glebe_option("verbose", "1");
    gb_say_at_exit();
    fixture_printed("glebe: prog[4711]: version 0.1.0 was active: at most 16.0 KiB in use, 0.0 KiB purged, 0 errors\n");
    fake.printed_bytes = 0;
    fake.malloc_elsewhere = true;
    gb_say_at_exit();
    const char *said = expect(fake.printed, "glebe: prog[4711]: version 0.1.0 was active beside another malloc: ");
    expect(said, "at most 16.0 KiB in use, ");
    fake.printed_bytes = 0;
    assert_non_null(glebe_malloc(5 << 20));
    gb_say_at_exit();
    said = expect(fake.printed, "glebe: prog[4711]: version 0.1.0 was active beside another malloc: ");
    expect(said, "at most 5.0 MiB in use, ");
}

/* Under the command, a tree of processes appends statistics to a file; without the file they go to stderr. */
static void test_collected(void **state)
{
    (void)state;
    char *const environment[] = {"GLEBE_STATS=1", "GLEBE_TOOL_STATS=/file", NULL};
    fake.environment = environment;
    fake.program = "prog";
    gb_options_read();
    fake.file = "/file";
    gb_say_at_exit();
    expect(fake.printed, "{\"program\": \"prog\", \"pid\": 4711, \"committed_bytes\": ");
    assert_string_equal(fake.printed + fake.printed_bytes - 2, "}\n");
    fake.printed_bytes = 0;
    fake.file = "/other";
    gb_say_at_exit();
    expect(fake.printed, "glebe: prog[4711]: statistics\n");
    fake.printed_bytes = 0;
    glebe_option("stats", "json");
    gb_say_at_exit();
    expect(fake.printed, "{\"program\"");
    fake.printed[fake.printed_bytes = 0] = 0;
    glebe_option("stats", "0");
    fake.file = "/file";
    gb_say_at_exit();
    fixture_printed("");
}

/* With any program name a line stays a line, and JSON stays JSON. */
static void test_odd_names(void **state)
{
    (void)state;
    char name[500];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = 0;
    glebe_option("stats", "json");
    fake.program = "a\"b\\c\nd\xc3\xa9 e";
    gb_say_at_exit();
    expect(fake.printed, "{\"program\": \"a?b?c?d?? e\", \"pid\": 4711, \"");
    fake.printed_bytes = 0;
    fake.program = name;
    gb_say_at_exit();
    expect(strstr(fake.printed, "nn\""), "nn\", \"pid\": 4711, \"");
    assert_string_equal(fake.printed + fake.printed_bytes - 2, "}\n");
    fake.printed_bytes = 0;
    fake.program = NULL;
    gb_say_at_exit();
    expect(fake.printed, "{\"program\": \"\", \"pid\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_tables_count_as_they_grow),
        FIXTURE_TEST(test_live_has_every_name),
        FIXTURE_TEST(test_json),
        FIXTURE_TEST(test_text),
        FIXTURE_TEST(test_cut_as_snprintf_does),
        FIXTURE_TEST(test_numbers_are_true),
        FIXTURE_TEST(test_what_is_said_at_exit),
        FIXTURE_TEST(test_collected),
        FIXTURE_TEST(test_odd_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
