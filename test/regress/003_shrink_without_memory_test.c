/* Without memory, realloc could not move a block to a smaller one and returned it as it was. glebe_heap_free_sized then
 * took a medium or large block for a small one of the requested size, and put it into that class's thread free list
 * (invariant 3). realloc still returns the block, but from then on its heap does not trust the sizes of frees. */
#include "../unit/fixture.h"

static void test_a_sized_free_is_not_misled(void **state)
{
    (void)state;
    const size_t before[] = {3000, 70000, 1500000};
    for (int i = 0; i < 3; i++) {
        glebe_heap *heap = glebe_heap_create((size_t)64 * 1024 + before[i] / 4096 * 4096 + 16384);
        void *p = glebe_heap_malloc(heap, before[i]);
        assert_non_null(p);
        while (glebe_heap_malloc(heap, 100))
            continue;
        void *q = glebe_heap_realloc_sized(heap, p, before[i], 100);
        if (q)
            glebe_heap_free_sized(heap, q, 100);
        else
            glebe_heap_free_sized(heap, p, before[i]);
        fixture_check();
        gb_fronts_flush(heap);
        fixture_check();
        glebe_heap_destroy(heap);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(test_a_sized_free_is_not_misled)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
