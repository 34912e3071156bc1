/* glebe_heap_limit(NULL) by a thread without blocks set the limit of the empty heap that all such threads share,
 * without effect. And a thread that reclaimed an abandoned heap inherited the limit of the thread that had ended. */
#include "../unit/fixture.h"

static void test_limit_before_the_first_malloc(void **state)
{
    (void)state;
    assert_int_equal(glebe_heap_limit(NULL, 100000), 0);
    assert_int_equal(gb_heap_none.limit_bytes, 0);
    assert_null(glebe_malloc(200000));
}

static void test_limit_ends_with_the_thread(void **state)
{
    (void)state;
    fixture_thread(1);
    assert_non_null(glebe_malloc(10));
    assert_int_equal(glebe_heap_limit(NULL, 100000), 0);
    fixture_thread_end(1);
    fixture_thread(2);
    assert_non_null(glebe_malloc(10));
    assert_int_equal(glebe_live.stats.heaps_reclaimed, 1);
    assert_non_null(glebe_malloc(200000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_limit_before_the_first_malloc),
        FIXTURE_TEST(test_limit_ends_with_the_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
