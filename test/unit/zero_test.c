/* Blocks of no bytes: addresses of their own, which are in use until they are freed, whatever their number, alignment
 * and thread. Heaps of the program's have blocks with a byte instead. */
#include "fixture.h"

enum { BLOCKS = 1000 };

static bool zero_place(const void *block)
{
    return gb_zero_place(block) && glebe_usable_size(block) == 0;
}

static void test_each_has_its_address(void **state)
{
    (void)state;
    static void *blocks[BLOCKS];
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            blocks[i] = i % 3 == 0 ? glebe_malloc(0) : i % 3 == 1 ? glebe_calloc(0, 5) : glebe_realloc(NULL, 0);
            assert_true(zero_place(blocks[i]));
            assert_int_equal((uintptr_t)blocks[i] % 16, 0);
            assert_true(gb_zero_in_use(blocks[i]));
            for (int k = 0; k < i && round == 0; k++)
                assert_ptr_not_equal(blocks[i], blocks[k]);
        }
        for (int i = 0; i < BLOCKS; i++)
            glebe_free(blocks[(i * 7 + round) % BLOCKS]);
    }
    assert_true(gb_the.zeros.words < 40); /* freed ones are used again */
    assert_int_equal(glebe_live.stats.used_bytes, 0);
    assert_int_equal(glebe_live.stats.errors, 0);
    fixture_check();
    fixture_balance();
}

static void test_alignments(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++)
        for (size_t alignment = 8; alignment <= (size_t)256 << 10; alignment *= 2) {
            void *a = glebe_aligned_alloc(alignment, 0), *b = glebe_aligned_alloc(alignment, 0);
            assert_non_null(a);
            assert_ptr_not_equal(a, b);
            assert_int_equal((uintptr_t)a % alignment, 0);
            assert_int_equal((uintptr_t)b % alignment, 0);
            assert_true(zero_place(a) == (alignment <= GB_GRANULE_BYTES));
            glebe_free(a);
            glebe_free_aligned_sized(b, alignment, 0);
        }
    assert_int_equal(glebe_live.stats.errors, 0);
    fixture_release();
}

static void test_resized(void **state)
{
    (void)state;
    void *none = glebe_malloc(0);
    assert_ptr_equal(gb_realloc("realloc", gb_self, none, 0), none);
    char *block = glebe_realloc(none, 100);
    assert_true(glebe_usable_size(block) >= 100);
    memset(block, 1, 100);
    assert_false(gb_zero_in_use(none));
    assert_null(glebe_realloc(none, 100)); /* it is free */
    assert_int_equal(glebe_live.stats.errors, 1);
    none = gb_realloc("realloc", gb_self, block, 0);
    assert_true(zero_place(none));
    glebe_free(none);
    fixture_release();
}

static void test_misuse(void **state)
{
    (void)state;
    char *block = glebe_malloc(0);
    glebe_free(block + 1);
    glebe_free(block + 16); /* free */
    glebe_free(block + ((size_t)64 << 4)); /* never handed out */
    assert_int_equal(glebe_usable_size(block + 8), 0);
    assert_int_equal(glebe_live.stats.errors, 4);
    glebe_free(block);
    glebe_free(block);
    assert_int_equal(glebe_live.stats.errors, 5);
    fixture_check();
}

static void test_threads_and_heaps(void **state)
{
    (void)state;
    fixture_thread(1);
    void *first = glebe_malloc(0);
    assert_true(glebe_heap_owns(NULL, first));
    fixture_thread_end(1);
    fixture_thread(2);
    void *second = glebe_malloc(0);
    assert_ptr_not_equal(first, second);
    glebe_free(first);
    glebe_free(second);
    glebe_heap *heap = glebe_heap_create(0);
    void *owned = glebe_heap_malloc(heap, 0);
    assert_false(gb_zero_place(owned));
    assert_true(glebe_heap_owns(heap, owned));
    assert_false(glebe_heap_owns(heap, second));
    assert_true(glebe_usable_size(owned) > 0);
    assert_int_equal((uintptr_t)glebe_heap_aligned_alloc(heap, 64, 0) % 64, 0);
    glebe_heap_destroy(heap);
    assert_int_equal(glebe_live.stats.errors, 0);
    fixture_release();
}

/* Without address space for more, a block of one byte does. */
static void test_no_room(void **state)
{
    (void)state;
    glebe_free(glebe_malloc(0));
    gb_the.zeros.words_max = gb_the.zeros.words;
    static void *blocks[100];
    uint32_t places = 0;
    for (int i = 0; i < 100; i++) {
        blocks[i] = glebe_malloc(0);
        assert_non_null(blocks[i]);
        places += gb_zero_place(blocks[i]);
    }
    assert_int_equal(places, 64);
    for (int i = 0; i < 100; i++)
        glebe_free(blocks[i]);
    assert_int_equal(glebe_live.stats.errors, 0);
    fixture_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(test_each_has_its_address), FIXTURE_TEST(test_alignments),
        FIXTURE_TEST(test_resized), FIXTURE_TEST(test_misuse), FIXTURE_TEST(test_threads_and_heaps),
        FIXTURE_TEST(test_no_room)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
