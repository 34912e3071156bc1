/* A thread reads the clock, another one frees memory a millisecond later, and the first compares: memory touched after
 * `now` was taken for 49 days old. */
#include "../unit/fixture.h"

enum { NOW = 100000 };

static void clock_is(uint32_t ms)
{
    fake.now_ms = ms;
    gb_store(&gb_the.now_ms, ms);
}

static void test_a_chunk_queued_later_is_not_due(void **state)
{
    (void)state;
    clock_is(NOW + 1);
    glebe_free(glebe_malloc(500000));
    assert_int_equal(gb_purge_due(NOW, false), 0);
    assert_int_equal(gb_purge_wait(NOW), GB_PURGE_MS);
    assert_int_equal(gb_purge_wait(NOW + 2), GB_PURGE_MS - 1);
    assert_true(gb_purge_due(NOW + 1 + GB_PURGE_MS, false) >= 500000);
}

static void test_a_chunk_touched_later_is_busy(void **state)
{
    (void)state;
    clock_is(NOW);
    void *used = glebe_malloc(200000);
    glebe_free(glebe_malloc(100000));
    clock_is(NOW + GB_PURGE_MS + 1);
    glebe_free(used);
    assert_int_equal(gb_purge_due(NOW + GB_PURGE_MS, false), 0); /* nothing has been idle since an earlier look */
    assert_true(gb_purge_due(NOW + 3 * GB_PURGE_MS, false) >= 300000);
}

static void test_a_huge_block_freed_later_is_kept(void **state)
{
    (void)state;
    void *block = glebe_malloc(5000000);
    memset(block, 1, 5000000);
    clock_is(NOW + 1);
    glebe_free(block);
    assert_int_equal(gb_purge_due(NOW, false), 0);
    assert_int_equal(gb_purge_wait(NOW), GB_PURGE_MS);
    assert_true(gb_purge_due(NOW + 1 + GB_PURGE_MS, false) >= 5000000);
}

/* Memory that was freed a month ago, while the process slept, is due, also after a wrap of the clock. */
static void test_what_is_old_is_due(void **state)
{
    (void)state;
    static const uint32_t starts[] = {NOW, UINT32_MAX - 5};
    for (int i = 0; i < 2; i++) {
        clock_is(starts[i]);
        glebe_free(glebe_malloc(500000));
        uint32_t later = starts[i] + 30u * 24 * 3600 * 1000;
        assert_int_equal(gb_purge_wait(later), 0);
        assert_true(gb_purge_due(later, false) >= 500000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_a_chunk_queued_later_is_not_due),
        FIXTURE_TEST(test_a_chunk_touched_later_is_busy),
        FIXTURE_TEST(test_a_huge_block_freed_later_is_kept),
        FIXTURE_TEST(test_what_is_old_is_due),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
