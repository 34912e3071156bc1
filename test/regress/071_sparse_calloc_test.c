/* calloc wrote zeros to all of a reused huge block, touched or not: a sparse array became wholly resident, in half a
 * second for 1 GB. */
#include "../unit/fixture.h"

enum { ARRAYS = 4 };
#define ARRAY_BYTES ((size_t)32 << 20)

/* Touches one page each of some arrays, frees one, and takes it again with calloc. Returns the bytes that this made
 * resident. */
static size_t taken_again(bool sparse)
{
    char *arrays[ARRAYS];
    fixture_start(1);
    fake.sparse = sparse;
    for (int i = 0; i < ARRAYS; i++) {
        arrays[i] = glebe_malloc(ARRAY_BYTES);
        assert_non_null(arrays[i]);
        arrays[i][ARRAY_BYTES / 2] = 1;
    }
    glebe_free(arrays[1]);
    size_t before = gb_fake_resident_bytes();
    arrays[1] = glebe_calloc(1, ARRAY_BYTES - 100);
    size_t after = gb_fake_resident_bytes();
    assert_true(fixture_zero(arrays[1], ARRAY_BYTES - 100));
    for (int i = 0; i < ARRAYS; i++)
        glebe_free(arrays[i]);
    fixture_release();
    return before == SIZE_MAX ? 0 : after > before ? after - before : 0;
}

static void test_sparse_stays_sparse(void **state)
{
    (void)state;
    assert_in_range(taken_again(true), 0, ARRAY_BYTES / 8);
}

static void test_dense_is_written(void **state)
{
    (void)state;
    size_t grown = taken_again(false); /* control: written memory shows up as resident */
    assert_true(grown >= ARRAY_BYTES / 2 || gb_fake_resident_bytes() == SIZE_MAX);
}

/* The host refuses to purge. */
static void test_a_host_that_refuses(void **state)
{
    (void)state;
    fixture_start(1);
    char *array = glebe_malloc(ARRAY_BYTES);
    memset(array, 1, ARRAY_BYTES);
    glebe_free(array);
    fake.sparse = true;
    gb_fake_fail(1u << GB_FAKE_PURGE, 1, UINT32_MAX);
    array = glebe_calloc(1, ARRAY_BYTES - 100);
    assert_true(fixture_zero(array, ARRAY_BYTES - 100));
    gb_fake_fail(0, 0, 0);
    glebe_free(array);
    fixture_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_sparse_stays_sparse),
        FIXTURE_TEST(test_dense_is_written),
        FIXTURE_TEST(test_a_host_that_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
