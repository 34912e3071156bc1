/* A fork handler of another library forked. The inner fork dropped the heap's locks, which the outer fork still needed;
 * the outer fork then dropped locks that another thread had taken. */
#include "../unit/fixture.h"

static bool held(void)
{
    return gb_load(&gb_the.lock.word) != 0 && gb_load(&gb_the.abandoned.lock.word) != 0;
}

static void serves(void)
{
    void *block = glebe_malloc(100000);
    assert_non_null(block);
    glebe_free(block);
}

static void test_in_the_parent(void **state)
{
    (void)state;
    serves();
    gb_fork_prepare();
    gb_fork_prepare();
    serves();
    gb_fork_parent();
    assert_true(held());
    serves();
    gb_fork_parent();
    assert_int_equal(gb_load(&gb_the.lock.word), 0);
    assert_int_equal(gb_load(&gb_the.abandoned.lock.word), 0);
    serves();
    fixture_check();
}

/* The inner child continues the outer fork. */
static void test_in_the_child(void **state)
{
    (void)state;
    fixture_thread(1);
    serves();
    glebe_heap *other = gb_self;
    fixture_thread(0);
    serves();
    gb_fork_prepare();
    gb_fork_prepare();
    gb_fork_child();
    assert_int_equal(other->kind, GB_HEAP_DEAD);
    assert_true(held());
    serves();
    gb_fork_child();
    assert_int_equal(gb_load(&gb_the.lock.word), 0);
    assert_int_equal(gb_load(&gb_the.abandoned.lock.word), 0);
    serves();
    fixture_check();
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(test_in_the_parent), FIXTURE_TEST(test_in_the_child)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
