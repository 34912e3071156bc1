/* A shrinking realloc that found no memory for a smaller block kept the old one, which is a success, but set errno. */
#include "../unit/fixture.h"

static void test_errno_is_kept(void **state)
{
    (void)state;
    void *p = glebe_malloc(60000);
    fake.memory_bytes = fake.committed_bytes;
    while (glebe_malloc(100))
        continue;
    errno = 7;
    assert_ptr_equal(glebe_realloc(p, 100), p);
    assert_int_equal(errno, 7);
    assert_null(glebe_realloc(p, 3000000));
    assert_int_equal(errno, ENOMEM);
}

/* glebe_heap_realloc keeps errno too, although a sized free would mistake the block. */
static void test_errno_is_kept_of_a_heap(void **state)
{
    (void)state;
    glebe_heap *heap = glebe_heap_create(0);
    void *p = glebe_heap_malloc(heap, 60000);
    fake.memory_bytes = fake.committed_bytes;
    while (glebe_heap_malloc(heap, 100))
        continue;
    errno = 7;
    assert_ptr_equal(glebe_heap_realloc(heap, p, 100), p);
    assert_int_equal(errno, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(test_errno_is_kept), FIXTURE_TEST(test_errno_is_kept_of_a_heap)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
