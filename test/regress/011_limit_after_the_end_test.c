/* glebe_heap_limit(NULL) in a destructor that runs after the thread has abandoned its heap took another heap, which was
 * never abandoned. */
#include "../unit/fixture.h"

static void test_limit_after_the_end(void **state)
{
    (void)state;
    glebe_free(glebe_malloc(10));
    gb_thread_exit();
    assert_int_equal(glebe_live.stats.heaps_abandoned, 1);
    assert_int_equal(glebe_heap_limit(NULL, 100000), 0);
    assert_int_equal(glebe_live.stats.heaps_abandoned, 1);
    assert_ptr_equal(gb_self, &gb_heap_none);
    assert_non_null(glebe_malloc(200000)); /* the limit does not outlive the call */
    assert_int_equal(glebe_live.stats.heaps_abandoned, 1);
}

/* Every function that a thread or process may call before it allocates. */
static void test_before_the_first_malloc(void **state)
{
    (void)state;
    glebe_stats s;
    for (int round = 0; round < 2; round++) {
        assert_int_equal(glebe_heap_bytes(NULL), 0);
        assert_int_equal(glebe_trim(NULL), 0);
        assert_int_equal(glebe_check(NULL, 2, NULL, NULL), 0);
        glebe_stats_read(&s);
        assert_int_equal(s.heaps, round);
        assert_int_equal(s.used_bytes, 0);
        assert_ptr_equal(gb_self, &gb_heap_none);
        fixture_thread(1);
        glebe_free(glebe_malloc(10));
        glebe_trim(NULL);
        fixture_thread(0);
    }
    assert_int_equal(gb_heap_none.limit_bytes, 0);
    gb_fake_fail((1u << GB_FAKE_CALLS) - 1, 1, UINT64_MAX);
    fixture_start(1);
    gb_fake_fail((1u << GB_FAKE_CALLS) - 1, 1, UINT64_MAX);
    assert_int_equal(glebe_heap_limit(NULL, 100), ENOMEM);
    assert_int_equal(glebe_heap_bytes(NULL), 0);
    assert_int_equal(glebe_trim(NULL), 0);
    assert_int_equal(glebe_check(NULL, 2, NULL, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(test_limit_after_the_end),
        FIXTURE_TEST(test_before_the_first_malloc)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
