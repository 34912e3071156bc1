/* The snapshot: what its variable may be, when the process looks at its limits, and which crossings are written. The
 * fake host's limits are set by the tests. */
#include "fixture.h"

#if GB_SNAPSHOTS

enum { MIB = 1 << 20 };
static char text[1 << 22];
static char variable[600];
static char *environment[] = {variable, NULL};

/* A process that was started with this value. */
static void start(const char *value)
{
    fixture_start(5);
    glebe_free(glebe_malloc(1));
    snprintf(variable, sizeof variable, "GLEBE_SNAPSHOT=%s", value);
    fake.environment = environment;
    fake.profile = text;
    fake.profile_room = sizeof text;
    text[0] = 0;
    gb_snapshot_begin();
    fake.profiles = 0;
}

/* Snapshots so far: each is two files. */
static unsigned taken(void)
{
    assert_int_equal(fake.profiles % 2, 0);
    return fake.profiles / 2;
}

/* Sets the use of the address space, of 100 MiB, and has the process look. */
static void use(size_t mib)
{
    fake.limits[0].limit = 100 * MIB;
    fake.limits[0].used = mib * MIB;
    gb_the.watch.look(0);
}

static void refused(const char *value)
{
    start(value);
    assert_null(gb_the.watch.look);
    assert_non_null(strstr(fake.printed, "it takes FILE@N%, N from 1 to 100, or FILE@SIZE"));
}

static void test_values(void **state)
{
    (void)state;
    static const char *const bad[] = {"x", "x@", "@5%", "x@0%", "x@101%", "x@1.5%", "x@5K%", "x@-1%", "x@0", "x@5Q"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refused(bad[i]);
    static const char *const good[] = {"x@1%", "x@100%", "a@b@7%", "x@1.5M", "/tmp/%p@1"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        start(good[i]);
        assert_non_null(gb_the.watch.look);
        assert_int_equal(fake.printed_bytes, 0);
    }
    start("");
    assert_null(gb_the.watch.look);
    char longest[560];
    memset(longest, 'a', sizeof longest);
    memcpy(longest + sizeof longest - 4, "@9%", 4);
    refused(longest);
}

static void test_once_for_each_crossing(void **state)
{
    (void)state;
    start("x@90%");
    use(50);
    assert_int_equal(taken(), 0);
    use(89);
    assert_int_equal(taken(), 0);
    use(90);
    assert_int_equal(taken(), 1);
    assert_memory_equal(text, "glebe-snapshot 1\nprocess ", 25);
    assert_non_null(strstr(text, "\ncrossed 94371840 address space (RLIMIT_AS)\n"));
    assert_non_null(strstr(text, "\nlimit 104857600 94371840 address space (RLIMIT_AS)\n"));
    assert_non_null(strstr(text, "\nstatistic used_bytes "));
    use(95);
    use(89); /* still close to the threshold */
    use(91);
    assert_int_equal(taken(), 1);
    use(80);
    use(91);
    assert_int_equal(taken(), 2);
}

static void test_blocks_are_looked_at_by_bytes(void **state)
{
    (void)state;
    start("x@40M");
    size_t held = 0, each = 100 << 10;
    while (held < 39 * (size_t)MIB) {
        assert_non_null(glebe_malloc(each));
        held = (size_t)glebe_live.stats.used_bytes;
    }
    assert_int_equal(taken(), 0);
    while (held < 41 * (size_t)MIB) {
        assert_non_null(glebe_malloc(each));
        held = (size_t)glebe_live.stats.used_bytes;
    }
    assert_int_equal(taken(), 1);
    assert_non_null(strstr(text, "\ncrossed 41943040 bytes in use\n"));
    fixture_check();
}

/* A block that is larger than what is left will be touched before the next request. */
static void test_memory_that_was_promised_counts(void **state)
{
    (void)state;
    start("x@90%");
    fake.pressure_limit = 100 * MIB;
    fake.pressure_used = 10 * MIB;
    gb_the.watch.look(0);
    assert_non_null(glebe_malloc(85 * MIB));
    assert_int_equal(taken(), 1);
    assert_non_null(glebe_malloc(85 * MIB)); /* once, since the program may never touch them */
    assert_int_equal(taken(), 1);
    fake.pressure_used = 91 * MIB;
    gb_the.watch.look(0);
    assert_int_equal(taken(), 2);
}

static void test_a_failed_request_counts(void **state)
{
    (void)state;
    start("x@90%");
    gb_the.options.limit = 8 * MIB;
    assert_null(glebe_malloc(9 * MIB)); /* more than the whole limit */
    assert_int_equal(taken(), 0);
    assert_non_null(glebe_malloc(4 * MIB));
    assert_null(glebe_malloc(5 * MIB));
    assert_int_equal(taken(), 1);
    assert_non_null(strstr(text, "\nfailed 5242880\n"));
    assert_null(glebe_malloc(5 * MIB));
    assert_int_equal(taken(), 1);
}

static void test_the_text_is_whole(void **state)
{
    (void)state;
    start("x@4M");
    for (int i = 0; i < 100; i++)
        assert_non_null(glebe_malloc(64));
    assert_non_null(glebe_malloc(8 * MIB));
    assert_int_equal(taken(), 1);
    assert_non_null(strstr(text, "\nclass "));
    assert_memory_equal(text + fake.profile_bytes - 4, "end\n", 4);
    if (GB_SAMPLES) {
        start("x@4M");
        assert_int_equal(glebe_profile_start(1), 0);
        assert_non_null(glebe_malloc(8 * MIB));
        assert_int_equal(taken(), 1);
        assert_non_null(strstr(text, "\nglebe-profile 1\n"));
        assert_null(strstr(text, "\nclass "));
    }
}

static void test_no_room_is_told_once(void **state)
{
    (void)state;
    start("x@90%");
    fake.profile_error = ENOSPC;
    use(95);
    assert_non_null(strstr(fake.printed, "glebe: snapshot: cannot write x: error "));
    assert_null(gb_the.watch.look);
}

#else

static void test_nothing(void **state)
{
    (void)state;
    skip();
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#if GB_SNAPSHOTS
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_once_for_each_crossing),
        cmocka_unit_test(test_blocks_are_looked_at_by_bytes),
        cmocka_unit_test(test_memory_that_was_promised_counts),
        cmocka_unit_test(test_a_failed_request_counts),
        cmocka_unit_test(test_the_text_is_whole),
        cmocka_unit_test(test_no_room_is_told_once),
#else
        cmocka_unit_test(test_nothing),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
