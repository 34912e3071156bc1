/* A thread with a limit reclaimed pages of abandoned heaps without counting them against the limit. */
#include "../unit/fixture.h"

enum { BLOCKS = 40000, BYTES = 100 };

static void leave_half(int k)
{
    static void *blocks[BLOCKS];
    fixture_thread(k);
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = glebe_malloc(BYTES);
    for (int i = 0; i < BLOCKS; i++)
        if (i % 16)
            glebe_free(blocks[i]);
    fixture_thread(0);
}

static void test_limit_holds_for_pages_of_abandoned(void **state)
{
    (void)state;
    assert_non_null(glebe_malloc(BYTES));
    leave_half(1);
    leave_half(2);
    fixture_thread_end(1);
    fixture_thread_end(2);
    size_t limit = glebe_heap_bytes(NULL) + 100000;
    assert_int_equal(glebe_heap_limit(NULL, limit), 0);
    int count = 0;
    while (count < BLOCKS && glebe_malloc(BYTES))
        count++;
    assert_true(count < BLOCKS);
    assert_in_range(glebe_heap_bytes(NULL), limit - 70000, limit);
    fixture_check();
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(test_limit_holds_for_pages_of_abandoned)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
