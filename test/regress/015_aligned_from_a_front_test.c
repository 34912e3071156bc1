/* A block that was shrunk in place and freed with its new size is in the thread free list of a smaller class than its
 * page's. An aligned request of that class got the block, whatever its address. */
#include "../unit/fixture.h"

static void test_alignment_holds(void **state)
{
    (void)state;
    void *blocks[20];
    glebe_heap *heap = glebe_heap_create(0);
    for (int i = 0; i < 20; i++)
        blocks[i] = glebe_heap_malloc(heap, 600);
    for (int i = 0; i < 20; i++) {
        assert_ptr_equal(glebe_heap_realloc(heap, blocks[i], 502), blocks[i]);
        glebe_heap_free_sized(heap, blocks[i], 502);
    }
    for (int i = 0; i < 20; i++) {
        blocks[i] = glebe_heap_aligned_alloc(heap, 256, 502);
        assert_int_equal((uintptr_t)blocks[i] % 256, 0);
        fixture_fill(blocks[i], 502, (uint64_t)i);
    }
    for (int i = 0; i < 20; i++)
        assert_true(fixture_filled(blocks[i], 502, (uint64_t)i));
    fixture_check();
    glebe_heap_destroy(heap);
    fixture_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(test_alignment_holds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
