/* The text of misuse reports, to the letter, and what follows a report. */
#include "fixture.h"

static char expected[512];

/* The line about `address`, and the line about the process. */
static void reported(const char *call, const void *address, const char *what)
{
    snprintf(expected, sizeof expected, "glebe: %s(0x%llx): %s\n", call, (unsigned long long)(uintptr_t)address, what);
    fixture_reported(expected);
}

static void test_format(void **state)
{
    (void)state;
    char text[64], decimal[24];
    assert_int_equal(gb_format(text, sizeof text, "%s %u %zu %p %%|", "word", 42u, (size_t)1 << 20, (void *)0xabc), 24);
    assert_string_equal(text, "word 42 1048576 0xabc %|");
    assert_int_equal(gb_format(text, 5, "%s", "longer"), 6);
    assert_string_equal(text, "long");
    assert_int_equal(gb_format(NULL, 0, "%u", 1234u), 4);
    assert_string_equal(gb_decimal(UINT64_MAX, decimal), "18446744073709551615");
    assert_string_equal(gb_decimal(0, decimal), "0");
}

static void test_foreign(void **state)
{
    (void)state;
    int here;
    fake.program = "prog";
    glebe_free(&here);
    reported("free", &here, "address is not from glebe");
    fake.program = NULL;
    assert_non_null(glebe_malloc(10));
    glebe_free(&here);
    reported("free", &here, "address is not from glebe");
    errno = 0;
    assert_null(glebe_realloc(&here, 10));
    reported("realloc", &here, "address is not from glebe");
    assert_int_equal(errno, EINVAL);
    assert_int_equal(glebe_usable_size(&here), 0);
    reported("malloc_usable_size", &here, "address is not from glebe");
    assert_int_equal(glebe_live.stats.errors, 4);
}

static void test_lines_are_cut(void **state)
{
    (void)state;
    char word[400];
    memset(word, 'w', sizeof word);
    word[sizeof word - 1] = 0;
    gb_report("free", NULL, "%s", word);
    char *second = fake.printed + 255;
    assert_int_equal(second[-1], '\n');
    assert_string_equal(second, "  in [4711]\n");
    fake.printed_bytes = 0;
    fake.program = word;
    gb_report("free", NULL, "%s", word);
    assert_int_equal(fake.printed[254], '\n');
    assert_int_equal(strlen(second), 5 + 63 + sizeof "[4711]"); /* cut */
    assert_string_equal(second + strlen(second) - 7, "[4711]\n");
    fake.printed_bytes = 0;
    fake.program = "a\nb\x1b[31m";
    gb_report("free", NULL, "%s", "x");
    fixture_printed("glebe: free(0x0): x\n  in a?b?[31m[4711]\n"); /* a name cannot forge a line */
}

static void test_abort_is_the_default(void **state)
{
    (void)state;
    jmp_buf back;
    int here;
    glebe_option("on_error", "abort");
    fake.on_abort = &back;
    if (setjmp(back) == 0) {
        glebe_free(&here);
        fail_msg("%s", "it went on");
    }
    reported("free", &here, "address is not from glebe");
}

static void test_out_of_memory(void **state)
{
    (void)state;
    errno = 0;
    assert_null(gb_out_of_memory());
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(glebe_live.stats.out_of_memory, 1);
    fixture_printed(""); /* this is no misuse */
}

/* Every kind of address that is no block: one report each, and the heap is unchanged. */
static void test_each_kind_is_one_report(void **state)
{
    (void)state;
    char *small = glebe_malloc(100), *medium = glebe_malloc(5000), *large = glebe_malloc(200000),
        *huge = glebe_malloc(3000000);
    char *const wrong[] = {medium + 16, large + 16, large + 20000, huge + 16, huge + 5000000, (char *)gb_the.base,
        (char *)gb_the.base + GB_CHUNK_BYTES - 16, (char *)gb_the.base + GB_CHUNK_BYTES, (char *)gb_the.table,
        (char *)1, (char *)-16};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_null(glebe_realloc(wrong[i], 10));
        assert_int_equal(glebe_live.stats.errors, 2 * i + 1);
        glebe_free(wrong[i]);
        assert_int_equal(glebe_live.stats.errors, 2 * i + 2);
        int lines = 0;
        for (const char *p = fake.printed; *p; p++)
            lines += *p == '\n';
        assert_int_equal(lines, 4);
        fake.printed_bytes = 0;
        fixture_check();
    }
    glebe_free(small);
    glebe_free(medium);
    glebe_free(large);
    glebe_free(huge);
    fixture_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_format),
        FIXTURE_TEST(test_foreign),
        FIXTURE_TEST(test_lines_are_cut),
        FIXTURE_TEST(test_abort_is_the_default),
        FIXTURE_TEST(test_out_of_memory),
        FIXTURE_TEST(test_each_kind_is_one_report),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
