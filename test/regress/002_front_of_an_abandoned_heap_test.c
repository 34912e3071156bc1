/* A sized free puts a block of any page into the thread free list of its class. A thread ended and left such blocks
 * there, and another thread reclaimed their page. The thread that then took the abandoned heap flushed blocks into a
 * page of another heap (invariant 3). A thread that ends now flushes its thread free lists. */
#include "../unit/fixture.h"

static void test_front_and_page_stay_together(void **state)
{
    (void)state;
    void *blocks[200], *own = glebe_malloc(16);
    fixture_thread(1);
    for (int i = 0; i < 200; i++)
        blocks[i] = glebe_malloc(500);
    for (int i = 0; i < 200; i++)
        if (i % 10 == 0)
            glebe_heap_free_sized(NULL, blocks[i], 500);
        else if (i % 2)
            glebe_free(blocks[i]);
    fixture_thread_end(1);
    fixture_check();
    fixture_thread(0);
    for (int i = 0; i < 100; i++)
        assert_non_null(glebe_malloc(500));
    assert_true(glebe_live.stats.pages_reclaimed > 0);
    fixture_check();
    fixture_thread(2); /* reclaims the heap */
    assert_non_null(glebe_malloc(500));
    gb_fronts_flush(gb_self);
    fixture_check();
    (void)own;
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(test_front_and_page_stay_together)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
