/* The host refused to purge, for example locked memory. A huge slot that then served a shorter block forgot that the
 * memory after that block is dirty, and calloc returned it as zero. */
#include "../unit/fixture.h"

static void test_calloc_after_a_refused_purge(void **state)
{
    (void)state;
    void *p = glebe_malloc((size_t)8 << 20);
    memset(p, 0xee, (size_t)8 << 20);
    glebe_free(p);
    gb_fake_fail(1u << GB_FAKE_PURGE, 1, 1000);
    void *q = glebe_malloc((size_t)5 << 20);
    assert_ptr_equal(p, q);
    glebe_free(q);
    q = glebe_calloc(8, (size_t)1 << 20);
    assert_ptr_equal(p, q);
    assert_true(fixture_zero(q, (size_t)8 << 20));
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(test_calloc_after_a_refused_purge)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
