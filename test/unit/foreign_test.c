/* Blocks of other allocators in free() (Windows): their own allocator frees them, realloc moves them to glebe, and they
 * have a size. An address that no allocator knows is still misuse. */
#define FIXTURE_FOREIGN true
#include "fixture.h"

static unsigned char theirs[100];

static void foreign(void)
{
    fake.theirs = theirs;
    fake.theirs_bytes = sizeof theirs;
    fixture_fill(theirs, sizeof theirs, 3);
}

static void test_goes_home(void **state)
{
    (void)state;
    foreign();
    assert_int_equal(glebe_usable_size(theirs), sizeof theirs);
    glebe_free(theirs);
    assert_null(fake.theirs);
    assert_int_equal(glebe_live.stats.foreign_frees, 1);
    assert_int_equal(glebe_live.stats.errors, 0);
    glebe_free(theirs);
    assert_int_equal(glebe_live.stats.errors, 1);
    assert_int_equal(glebe_usable_size(theirs), 0);
    assert_null(glebe_realloc(theirs, 10));
    assert_int_equal(glebe_live.stats.errors, 3);
    fixture_release();
}

static void test_moves_here(void **state)
{
    (void)state;
    const size_t sizes[] = {1, 50, 100, 101, 5000, 100000, 3000000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        foreign();
        unsigned char *ours = glebe_realloc(theirs, sizes[i]);
        assert_ptr_not_equal(ours, theirs);
        assert_null(fake.theirs);
        assert_true(fixture_filled(ours, sizes[i] < sizeof theirs ? sizes[i] : sizeof theirs, 3));
        assert_true(glebe_usable_size(ours) >= sizes[i]);
        glebe_free(ours);
    }
    assert_int_equal(glebe_live.stats.errors, 0);
    fixture_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_goes_home),
        FIXTURE_TEST(test_moves_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
