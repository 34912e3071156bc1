/* Every request that failed walked all pages with free blocks in search of holes. That made no room: a hole counts
 * towards limits, and keeps its address space. In 1 GiB of sparse pages each request took 70 to 100 ms. */
#include "../unit/fixture.h"

enum { BLOCKS = 20000 };

/* Allocates pages of which one block in a thousand is in use, and returns one such block. */
static char *sparse(glebe_heap *heap)
{
    static char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = glebe_heap_malloc(heap, 64);
    for (int i = 0; i < BLOCKS; i++)
        if (i % 1000)
            glebe_free(blocks[i]);
    return blocks[BLOCKS / 2];
}

static void test_a_heap_at_its_limit(void **state)
{
    (void)state;
    glebe_heap *heap = glebe_heap_create((size_t)4 << 20);
    const gb_page *page = gb_page_head(gb_page_entry(sparse(heap)));
    assert_null(glebe_heap_malloc(heap, (size_t)4 << 20));
    assert_int_equal(page->holes, 0);
    glebe_trim(heap); /* there are some */
    assert_int_not_equal(page->holes, 0);
    glebe_heap_destroy(heap);
}

static void told(void *context, uint64_t used, uint64_t limit)
{
    (void)used, (void)limit;
    ++*(int *)context;
}

static void test_the_limit_of_the_process(void **state)
{
    (void)state;
    int calls = 0;
    const gb_page *page = gb_page_head(gb_page_entry(sparse(NULL)));
    assert_int_equal(glebe_option("limit", "8M"), 0);
    glebe_on_pressure(told, &calls);
    assert_null(glebe_malloc((size_t)7 << 20));
    assert_int_equal(calls, 1);
    assert_int_equal(page->holes, 0);
    glebe_on_pressure(NULL, NULL);
    glebe_trim(NULL);
    assert_int_not_equal(page->holes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(test_a_heap_at_its_limit),
        FIXTURE_TEST(test_the_limit_of_the_process)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
