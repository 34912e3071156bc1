/* Destroying a collector a second time left the count of collectors one too low, and reported a heap that the program
 * never saw. Two collectors that were created later then each acted as the only one in the same tables. */
#include "../unit/fixture.h"

static void test_twice(void **state)
{
    (void)state;
    char expected[200];
    glebe_gc *gc = glebe_gc_create(0), *other = glebe_gc_create(0);
    assert_non_null(glebe_gc_alloc(gc, 64));
    glebe_gc_destroy(gc);
    glebe_gc_destroy(gc);
    snprintf(expected, sizeof expected, "glebe: glebe_gc_destroy(%p): not a collector, or destroyed already\n",
        (void *)gc);
    fixture_reported(expected);
    assert_int_equal(gb_the.bits[0].collectors, GB_BITS == 1);
    gc = glebe_gc_create(0);
    assert_int_equal(gb_the.bits[0].collectors, 3 - GB_BITS);
    assert_int_equal(glebe_gc_check(gc, NULL, NULL), 0);
    assert_int_equal(glebe_gc_check(other, NULL, NULL), 0);
    glebe_gc_destroy(other);
    glebe_gc_destroy(gc);
    glebe_gc_destroy(gc);
    assert_int_equal(glebe_live.stats.errors, 2);
    fixture_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(test_twice)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
