/* One pass of the purger marked a free medium block idle, and the next purged it without clearing the mark: the block
 * was idle and zero at once (invariant 6). */
#include "../unit/fixture.h"

static void test_a_block_given_back_is_not_idle(void **state)
{
    (void)state;
    void *keep = glebe_malloc(20000), *p = glebe_malloc(20000);
    memset(p, 1, 20000);
    glebe_free(p);
    gb_heap_cool(gb_self);
    gb_page *page = gb_page_head(gb_page_entry(keep));
    gb_chunk *chunk = gb_chunk_of(gb_slice_of(page));
    for (int visit = 0; visit < 3; visit++) {
        fake.now_ms += GB_PURGE_MS;
        gb_store(&chunk->touched_ms, fake.now_ms); /* busy: only idle blocks are purged */
        gb_purge_due(fake.now_ms, false);
        fixture_check();
    }
    assert_true(fake.purged_bytes >= 16384);
    assert_int_equal(gb_load(&page->idle) & gb_load(&page->bits), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(test_a_block_given_back_is_not_idle)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
