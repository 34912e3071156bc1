/* The mixed page of a program's heap: it serves every small class, through every function, and misuse is found as
 * elsewhere. */
#include "fixture.h"

static const size_t page_bytes = 2 * GB_SLICE_BYTES;

static const gb_page *page_of(const void *block)
{
    return gb_page_head(gb_page_entry(block));
}

static bool is_mixed(const void *block)
{
    return page_of(block)->cls == GB_MIXED;
}

static void test_all_classes_in_one_page(void **state)
{
    (void)state;
    glebe_heap *heap = glebe_heap_create(0);
    assert_int_equal(glebe_heap_bytes(heap), 0);
    void *blocks[GB_SMALL_CLASSES];
    size_t asked = 0;
    for (uint32_t cls = 0; cls < GB_SMALL_CLASSES && asked + 8 * gb_classes[cls].bytes < page_bytes; cls++) {
        size_t bytes = gb_classes[cls].bytes;
        asked += bytes;
        blocks[cls] = glebe_heap_realloc_sized(heap, NULL, 0, bytes); /* only this function reaches every class */
        assert_true(is_mixed(blocks[cls]));
        assert_int_equal((uintptr_t)blocks[cls] & (((uintptr_t)1 << gb_classes[cls].shift) - 1), 0);
        assert_int_equal(glebe_usable_size(blocks[cls]), bytes);
        fixture_fill(blocks[cls], bytes, cls);
        fixture_check();
    }
    assert_int_equal(glebe_heap_bytes(heap), page_bytes);
    for (uint32_t cls = 0; asked > 0; asked -= gb_classes[cls++].bytes)
        assert_true(fixture_filled(blocks[cls], gb_classes[cls].bytes, cls));
    glebe_heap_destroy(heap);
    fixture_release();
}

/* A full mixed page serves the blocks freed in it, and classes have their own pages beside it. */
static void test_full(void **state)
{
    (void)state;
    enum { N = 3000 };
    static void *blocks[N];
    glebe_heap *heap = glebe_heap_create(0);
    int mixed = 0;
    for (int i = 0; i < N; i++) {
        size_t bytes = 16 + 16 * (size_t)(i % 6);
        blocks[i] = glebe_heap_malloc(heap, bytes);
        fixture_fill(blocks[i], bytes, (uint64_t)i);
        mixed += is_mixed(blocks[i]);
    }
    fixture_check();
    assert_in_range(mixed, page_bytes * 8 / 10 / 56, page_bytes / 56); /* 56 on average, and at most a fifth is lost */
    assert_false(is_mixed(blocks[N - 1]));
    int freed = 0, again = 0;
    for (int i = 0; i < N; i++)
        if (is_mixed(blocks[i]) && i % 2) {
            glebe_heap_free(heap, blocks[i]);
            blocks[i] = NULL;
            freed++;
        }
    fixture_check();
    for (int i = 0; i < 4 * N; i++)
        again += is_mixed(glebe_heap_malloc(heap, 32 + 32 * (size_t)(i % 3))); /* those with odd i */
    assert_int_equal(again, freed);
    fixture_check();
    for (int i = 0; i < N; i++)
        assert_true(!blocks[i] || fixture_filled(blocks[i], 16 + 16 * (size_t)(i % 6), (uint64_t)i));
    glebe_heap_destroy(heap);
    fixture_release();
}

/* A block that skips cells for its alignment leaves them to smaller blocks: 30 before the first, and in the next unit
 * seven rows of four before the second. */
static void test_gaps(void **state)
{
    (void)state;
    glebe_heap *heap = glebe_heap_create(0);
    char *first = glebe_heap_malloc(heap, 64), *small[58];
    for (int i = 0, gap = 0; gap < 2; gap++) {
        char *large = glebe_heap_malloc(heap, 2048);
        assert_int_equal(large - first, 2048 - 64 + gap * 4096);
        for (; i < 30 + 28 * gap; i++) {
            small[i] = glebe_heap_malloc(heap, 64);
            assert_in_range((uintptr_t)small[i], (uintptr_t)large - (30 + gap) * 64, (uintptr_t)large - 64);
            fixture_fill(small[i], 64, (uint64_t)i);
            fixture_check();
        }
    }
    for (int i = 0; i < 58; i++) {
        assert_true(fixture_filled(small[i], 64, (uint64_t)i));
        glebe_heap_free(heap, small[i]);
    }
    fixture_check();
    glebe_heap_destroy(heap);
    fixture_release();
}

static void test_ways_out(void **state)
{
    (void)state;
    glebe_heap *heap = glebe_heap_create(0);
    void *plain = glebe_heap_malloc(heap, 40), *sized = glebe_heap_malloc(heap, 300),
        *other = glebe_heap_malloc(heap, 1000);
    char *grown = glebe_heap_malloc(heap, 100);
    fixture_fill(grown, 100, 7);
    assert_true(is_mixed(other));
    assert_true(glebe_heap_owns(heap, sized));
    glebe_free(plain);
    glebe_heap_free_sized(heap, sized, 300);
    fixture_thread(1);
    glebe_free(other);
    fixture_thread(0);
    fixture_check();
    grown = glebe_heap_realloc(heap, grown, 1500);
    assert_true(is_mixed(grown) && fixture_filled(grown, 100, 7));
    grown = glebe_heap_realloc_sized(heap, grown, 1500, 20);
    assert_true(is_mixed(grown) && fixture_filled(grown, 20, 7));
    int again = 0;
    for (int i = 0; i < 5; i++) /* requests that fit in a cell */
        again += glebe_heap_malloc(heap, 40) == plain;
    assert_int_equal(again, 1);
    assert_ptr_equal(glebe_heap_malloc(heap, 300), sized);
    for (size_t alignment = 16; alignment <= (size_t)1 << 16; alignment *= 2)
        for (size_t bytes = 1; bytes <= 3000; bytes *= 3)
            assert_int_equal((uintptr_t)glebe_heap_aligned_alloc(heap, alignment, bytes) % alignment, 0);
    fixture_check();
    glebe_heap_destroy(heap);
    fixture_release();
}

/* The blocks of a heap with few blocks lie in one OS page: each class takes 64 bytes there, or one block. Beyond that
 * each takes 256. */
static void test_few_blocks_in_one_unit(void **state)
{
    (void)state;
    glebe_heap *heap = glebe_heap_create(0);
    uintptr_t start = 0;
    for (int i = 0; i < 24; i++) {
        char *block = glebe_heap_malloc(heap, 16 + (size_t)(i * 37 % 15) * 16);
        start = start ? start : (uintptr_t)block & ~(GB_UNIT_BYTES - 1);
        assert_in_range((uintptr_t)block, start + 64, start + GB_UNIT_BYTES - 1);
    }
    for (int i = 0; i < 60; i++) { /* no block lies in two units */
        size_t bytes = 300 + (size_t)(i % 7) * 290;
        uintptr_t block = (uintptr_t)glebe_heap_malloc(heap, bytes);
        assert_int_equal(block / GB_UNIT_BYTES, (block + bytes - 1) / GB_UNIT_BYTES);
        assert_int_equal(gb_mixed_class(page_of((void *)block), (void *)(block + 8)), GB_MIXED);
        fixture_check();
        if (!is_mixed((void *)block))
            break;
    }
    const gb_page *page = gb_page_at(heap->mixed);
    for (size_t at = 0; at < page_bytes; at += GB_UNIT_BYTES) /* maps, and memory never used */
        assert_int_equal(gb_mixed_class(page, (void *)(gb_page_start(page) + at)), GB_MIXED);
    assert_in_range(gb_mixed_mean(page), 100, 2048);
    glebe_heap_destroy(heap);
    fixture_release();
}

/* A single block that is freed and allocated in turn soon has a second one beside it, and no more: half as many calls
 * are slow. */
static void test_one_block_again_and_again(void **state)
{
    (void)state;
    glebe_heap *heap = glebe_heap_create(0);
    void *first = glebe_heap_malloc(heap, 300), *second = NULL;
    glebe_heap_free(heap, first);
    for (int i = 0; i < 20; i++) {
        void *block = glebe_heap_malloc(heap, 300);
        if (block != first) {
            assert_true(!second || block == second);
            second = block;
        }
        glebe_heap_free(heap, block);
    }
    assert_non_null(second);
    fixture_check();
    glebe_heap_destroy(heap);
    fixture_release();
}

/* An empty mixed page returns to the arena, and the heap may have another later. */
static void test_gives_back(void **state)
{
    (void)state;
    glebe_heap *heap = glebe_heap_create(0);
    for (int round = 0; round < 3; round++) {
        void *last = glebe_heap_malloc(heap, 100);
        glebe_heap_free_sized(heap, glebe_heap_malloc(heap, 500), 500);
        glebe_trim(heap);
        assert_int_equal(glebe_heap_bytes(heap), page_bytes);
        glebe_free(last);
        glebe_trim(heap);
        assert_int_equal(glebe_heap_bytes(heap), 0);
        fixture_check();
    }
    glebe_heap_destroy(heap);
    fixture_release();
}

/* A limit below its size, and lack of memory, leave the pages of single classes. */
static void test_where_there_is_no_room(void **state)
{
    (void)state;
    glebe_heap *heap = glebe_heap_create(GB_SLICE_BYTES);
    void *block = glebe_heap_malloc(heap, 100);
    assert_non_null(block);
    assert_false(is_mixed(block));
    assert_null(glebe_heap_malloc(heap, 200));
    fixture_check();
    glebe_heap_destroy(heap);
    fixture_release();
}

static void test_misuse(void **state)
{
    (void)state;
    glebe_heap *heap = glebe_heap_create(0);
    char *short_one = glebe_heap_malloc(heap, 96), *long_one = glebe_heap_malloc(heap, 700);
    const char *inside[] = {short_one + 16, short_one + 200, long_one + 32, long_one + 512, long_one + 704,
        (char *)gb_page_start(page_of(long_one)), (char *)gb_page_start(page_of(long_one)) + page_bytes - 16};
    fixture_thread(1); /* this build does not check the owner's own frees */
    glebe_free(glebe_malloc(1));
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
        assert_int_equal(glebe_usable_size((void *)(uintptr_t)inside[i]), 0);
        glebe_free((void *)(uintptr_t)inside[i]);
        assert_int_equal(glebe_live.stats.errors, 2 * i + 2);
    }
    fixture_thread(0);
    fixture_check();
    glebe_heap_destroy(heap);
    fixture_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_all_classes_in_one_page),
        FIXTURE_TEST(test_full),
        FIXTURE_TEST(test_gaps),
        FIXTURE_TEST(test_ways_out),
        FIXTURE_TEST(test_few_blocks_in_one_unit),
        FIXTURE_TEST(test_one_block_again_and_again),
        FIXTURE_TEST(test_gives_back),
        FIXTURE_TEST(test_where_there_is_no_room),
        FIXTURE_TEST(test_misuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
