/* A collector with a limit of 48 to 80 KiB could be created, but served no request. */
#include "../unit/fixture.h"

static void test_serves_or_is_refused(void **state)
{
    (void)state;
    int refused = 0, served = 0;
    for (size_t limit = 4096; limit <= 512 << 10; limit += 4096) {
        errno = 0;
        glebe_gc *gc = glebe_gc_create(limit);
        if (!gc) {
            assert_int_equal(errno, ENOMEM);
            assert_true(limit < 128 << 10); /* what the header says */
            refused++;
            continue;
        }
        for (size_t bytes = 0; bytes <= 2048; bytes++)
            assert_non_null(glebe_gc_alloc(gc, bytes));
        served++;
        glebe_gc_destroy(gc);
    }
    assert_true(refused > 3 && served > 60);
    fixture_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(test_serves_or_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
