/* A failed request stayed counted in peak_used_bytes. */
#include "../unit/fixture.h"

static void test_peak(void **state)
{
    (void)state;
    void *p = glebe_malloc(100000);
    uint64_t used = glebe_live.stats.used_bytes;
    fake.memory_bytes = fake.committed_bytes + 100000;
    assert_null(glebe_malloc((size_t)64 << 20));
    assert_null(glebe_realloc(p, (size_t)64 << 20));
    assert_int_equal(glebe_live.stats.peak_used_bytes, used);
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(test_peak)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
