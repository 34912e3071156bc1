/* memalign set EINVAL for an alignment of half the address space. That is a power of two, so the error is ENOMEM. */
#include "../unit/fixture.h"

static void test_largest_powers(void **state)
{
    (void)state;
    static const size_t bytes[] = {0, 1, 100, 5000, 100000, 5000000, SIZE_MAX / 2, SIZE_MAX / 2 + 1, SIZE_MAX};
    glebe_heap *heap = glebe_heap_create(0);
    for (unsigned log2 = sizeof(size_t) * 8 - 1; log2 > sizeof(size_t) * 8 - (sizeof(size_t) == 8 ? 4 : 2); log2--)
        for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++) {
            size_t alignment = (size_t)1 << log2;
            void *out = &out;
            errno = 0;
            assert_null(glebe_memalign(alignment, bytes[i]));
            assert_int_equal(errno, ENOMEM);
            errno = 0;
            assert_null(glebe_memalign(alignment - 1, bytes[i])); /* rounded up */
            assert_int_equal(errno, ENOMEM);
            errno = 0;
            assert_null(glebe_aligned_alloc(alignment, bytes[i]));
            assert_int_equal(errno, ENOMEM);
            errno = 0;
            assert_null(glebe_heap_aligned_alloc(heap, alignment, bytes[i]));
            assert_int_equal(errno, ENOMEM);
            errno = 0;
            assert_int_equal(glebe_posix_memalign(&out, alignment, bytes[i]), ENOMEM);
            assert_int_equal(errno, 0);
            assert_ptr_equal(out, &out);
        }
    glebe_heap_destroy(heap);
    fixture_check();
}

static void test_what_is_no_alignment(void **state)
{
    (void)state;
    errno = 0;
    assert_null(glebe_memalign(SIZE_MAX / 2 + 2, 1)); /* no power of two is as large */
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_null(glebe_aligned_alloc(0, 1));
    assert_int_equal(errno, EINVAL);
    void *block = glebe_memalign(0, sizeof(void *)); /* as malloc, like glibc's */
    assert_non_null(block);
    glebe_free(block);
    fixture_release();
}

static void test_sizes_that_no_memory_has(void **state)
{
    (void)state;
    volatile size_t most = SIZE_MAX; /* volatile, since the compiler rejects such a constant size */
    for (size_t alignment = 1; alignment <= 1 << 22; alignment *= 2)
        for (size_t less = 0; less < 100000; less = less * 3 + 1) {
            errno = 0;
            assert_null(glebe_memalign(alignment, most - less));
            assert_int_equal(errno, ENOMEM);
            errno = 0;
            assert_null(glebe_memalign(alignment, most / 2 - less));
            assert_int_equal(errno, ENOMEM);
        }
    errno = 0;
    assert_null(glebe_valloc(most));
    assert_int_equal(errno, ENOMEM);
    errno = 0;
    assert_null(glebe_pvalloc(most));
    assert_int_equal(errno, ENOMEM);
    fixture_check();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_largest_powers),
        FIXTURE_TEST(test_what_is_no_alignment),
        FIXTURE_TEST(test_sizes_that_no_memory_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
