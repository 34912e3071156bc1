/* The arena in linear memory, one piece that grows at its end: runs, growth by need, a table that moves, and other code
 * that grows memory in between. */
#define GB_LINEAR 1
#include "fixture.h"

#include "../../src/linear/tagged.h"

/* Memory grows only by need: the first block takes 64 KiB from the host, and further blocks use the rest of these. */
static void test_growth_is_by_need(void **state)
{
    (void)state;
    assert_int_equal(fake.grown_bytes, 0);
    void *first = glebe_malloc(100);
    assert_int_equal(fake.grown_bytes, 1 << 16);
    void *large = glebe_malloc(40000);
    assert_int_equal(fake.grown_bytes, 1 << 16);
    void *larger = glebe_malloc(200000);
    assert_in_range(fake.grown_bytes, 200000 + 49152, 200000 + 49152 + (1 << 16));
    fixture_check();
    glebe_free(first);
    glebe_free(large);
    glebe_free(larger);
    fixture_release();
}

/* The peak counts blocks for which memory grew, though all are freed before the program looks. */
static void test_peak_of_growing_memory(void **state)
{
    enum { COUNT = 8, BYTES = 100000 };
    void *blocks[COUNT];
    (void)state;
    for (int i = 0; i < COUNT; i++)
        assert_non_null(blocks[i] = glebe_malloc(BYTES));
    for (int i = 0; i < COUNT; i++)
        glebe_free(blocks[i]);
    glebe_stats stats;
    glebe_stats_read(&stats);
    assert_in_range(stats.peak_used_bytes, COUNT * BYTES, COUNT * BYTES + COUNT * 64);
}

/* Free memory is used before memory grows, and adjacent free blocks merge. */
static void test_free_blocks_merge(void **state)
{
    (void)state;
    void *p[10]; /* few enough that the table stays in place */
    for (int i = 0; i < 10; i++)
        p[i] = glebe_malloc(12000);
    size_t grown = fake.grown_bytes;
    for (int i = 1; i < 9; i += 2)
        glebe_free(p[i]);
    fixture_check();
    for (int i = 2; i < 9; i += 2)
        glebe_free(p[i]);
    fixture_check();
    void *whole = glebe_malloc(8 * 12000);
    assert_int_equal(fake.grown_bytes, grown);
    glebe_free(whole);
    glebe_free(p[0]);
    glebe_free(p[9]);
    fixture_release();
}

/* The last block grows with memory, until the table lies behind it; one in the middle grows into free slices. */
static void test_resize_in_place(void **state)
{
    (void)state;
    unsigned char *a = glebe_malloc(40000), *b = glebe_malloc(40000), *c = glebe_malloc(40000);
    fixture_fill(c, 40000, 1);
    int moves = 0, steps = 0;
    for (size_t bytes = 50000; bytes < 5000000; bytes += bytes / 16, steps++) {
        unsigned char *moved = glebe_realloc(c, bytes);
        moves += moved != c;
        c = moved;
        fixture_check();
    }
    assert_true(moves * 7 < steps);
    assert_true(fixture_filled(c, 40000, 1));
    fixture_check();
    glebe_free(b);
    assert_ptr_equal(glebe_realloc(a, 70000), a);
    assert_ptr_equal(glebe_realloc(a, 20000), a);
    fixture_check();
    b = glebe_realloc(a, 400000); /* c is in the way */
    assert_ptr_not_equal(a, b);
    glebe_free(b);
    glebe_free(c);
    fixture_release();
}

/* The table moves as memory grows, and its old places are used again: in the end only one table is missing. */
static void test_table_moves(void **state)
{
    (void)state;
    enum { BLOCKS = 300 };
    static void *p[BLOCKS];
    const void *table = NULL;
    int moves = 0;
    for (int i = 0; i < BLOCKS; i++) {
        p[i] = glebe_malloc(17000 + (size_t)i * 50);
        fixture_fill(p[i], 17000, (uint64_t)i);
        moves += table != gb_the.table;
        table = gb_the.table;
        fixture_check();
    }
    assert_in_range(moves, 4, 12);
    for (int i = 0; i < BLOCKS; i++) {
        assert_true(fixture_filled(p[i], 17000, (uint64_t)i));
        glebe_free(p[i]);
    }
    fixture_release();
    gb_tagged *last = gb_tagged_at(gb_slice_start((uint32_t)gb_the.slices));
    assert_in_range(gb_the.linear.table_room, gb_the.slices, gb_the.slices * 2);
    assert_in_range(glebe_live.stats.table_bytes, gb_the.linear.table_room * sizeof(gb_page),
        gb_the.linear.table_room * sizeof(gb_page) + 128);
    size_t free = 0; /* in one block in front of the table, and one behind it */
    for (uint32_t bin = 0; bin < GB_TAGGED_BINS; bin++)
        for (gb_tagged *c = gb_the.linear.bins[bin]; c; c = c->next)
            free += gb_tagged_bytes(c);
    assert_int_equal(free, (uintptr_t)last - gb_slice_start(1) - 16 + GB_TAG_BYTES - glebe_live.stats.table_bytes);
}

static void test_somebody_else_grows(void **state)
{
    (void)state;
    void *p[60];
    for (int i = 0; i < 60; i++) {
        fake.foreign_bytes = i % 3 == 0 ? (size_t)(1 + i % 4) << 16 : 0;
        p[i] = glebe_malloc(30000);
        assert_non_null(p[i]);
        fixture_fill(p[i], 30000, (uint64_t)i);
        fixture_check();
    }
    for (int i = 0; i < 60; i++)
        assert_true(fixture_filled(p[i], 30000, (uint64_t)i));
    uint32_t foreign = 0;
    for (uint32_t i = 1; i < gb_the.slices; i++)
        foreign += gb_entry_at(i)->kind == GB_RESERVED;
    assert_true(foreign > 60);
    for (int i = 0; i < 60; i++)
        glebe_free(p[i]);
    fixture_release();
}

/* calloc clears used memory, and skips memory that was never used. */
static void test_fresh_memory_is_zero(void **state)
{
    (void)state;
    unsigned char *first = glebe_malloc(1000000);
    memset(first, 0xff, 1000000);
    uintptr_t fresh = gb_the.linear.fresh;
    unsigned char *zero = glebe_calloc(1, 500000);
    assert_true((uintptr_t)zero >= fresh);
    assert_true(fixture_zero(zero, 500000));
    glebe_free(first);
    first = glebe_calloc(1, 900000);
    assert_true(fixture_zero(first, 900000));
    glebe_free(first);
    glebe_free(zero);
    fixture_release();
}

/* If memory runs out the call fails and changes nothing; memory kept for other sizes is used first. */
static void test_end_of_memory(void **state)
{
    (void)state;
    enum { MOST = 1000 };
    static void *p[MOST];
    fake.memory_bytes = (size_t)1 << 20;
    int n = 0;
    while (n < MOST && (p[n] = glebe_malloc(1500)) != NULL)
        n++;
    assert_in_range(n, 600, 700);
    fixture_check();
    assert_null(glebe_malloc(100000));
    for (int i = 0; i < n; i++)
        glebe_free(p[i]);
    void *large = glebe_malloc(600000);
    assert_non_null(large);
    assert_null(glebe_realloc(large, 1100000));
    fixture_check();
    glebe_free(large);
    assert_null(glebe_malloc(PTRDIFF_MAX));
    assert_null(glebe_malloc(((size_t)1 << 31) - 1));
    volatile size_t all = SIZE_MAX; /* volatile, as compilers know it to be too much */
    assert_null(glebe_malloc(all));
    fixture_release();
}

static void test_heaps_are_large_blocks(void **state)
{
    (void)state;
    glebe_heap *heaps[5];
    for (int i = 0; i < 5; i++) {
        heaps[i] = glebe_heap_create(i == 4 ? 50000 : 0);
        for (int k = 0; k < 100; k++)
            assert_true(glebe_heap_malloc(heaps[i], (size_t)k * 20) || i == 4);
        fixture_check();
    }
    assert_null(glebe_heap_malloc(heaps[4], 50000));
    void *block = glebe_heap_malloc(heaps[2], 700);
    glebe_free(block); /* by any thread */
    fixture_check();
    for (int i = 0; i < 5; i++) {
        glebe_heap_destroy(heaps[i]);
        fixture_check();
    }
    fixture_release();
}

static void count_broken(void *context, int invariant, const void *address, const char *what)
{
    (void)address;
    (void)what;
    ((int *)context)[invariant]++;
}

/* The checker's reports of overwritten tags. */
static void test_checker_sees_tags(void **state)
{
    (void)state;
    char *a = glebe_malloc(3000), *b = glebe_malloc(3000), *c = glebe_malloc(3000);
    glebe_free(b);
    glebe_trim(NULL);
    fixture_check();
    uint32_t *tags[] = {(uint32_t *)(void *)(a - 4), (uint32_t *)(void *)(b - 4), (uint32_t *)(void *)(c - 4),
        (uint32_t *)(void *)(c - 8)};
    const uint32_t flips[] = {GB_TAG_BEFORE_USED, GB_TAG_USED, GB_TAG_BEFORE_USED, 16};
    for (int i = 0; i < 4; i++) {
        int broken[10] = {0};
        *tags[i] ^= flips[i];
        assert_true(glebe_check(NULL, 2, count_broken, broken) > 0);
        assert_true(broken[1] + broken[2] > 0);
        *tags[i] ^= flips[i];
        fixture_check();
    }
    glebe_free(a);
    glebe_free(c);
    fixture_release();
}

/* The block freed last is the next of its length, and counts as free after a trim. Aligned blocks may lie anywhere. */
static void test_warm_and_aligned(void **state)
{
    (void)state;
    void *first = glebe_malloc(5000), *second = glebe_malloc(6000);
    glebe_free(first);
    assert_ptr_equal(glebe_malloc(5000), first);
    glebe_free(first);
    glebe_free(second);
    assert_ptr_equal(glebe_malloc(6000), second);
    glebe_free(second);
    fixture_check();
    glebe_heap *heap = glebe_heap_create(0);
    for (size_t alignment = 16; alignment <= 1 << 16; alignment *= 2) {
        void *p = glebe_aligned_alloc(alignment, 700), *q = glebe_heap_aligned_alloc(heap, alignment, 30),
            *r = glebe_heap_malloc(heap, 3000);
        assert_int_equal((uintptr_t)p % alignment, 0);
        assert_int_equal((uintptr_t)q % alignment, 0);
        assert_in_range(glebe_usable_size(p), 700, 712 + 32);
        fixture_check();
        glebe_free(p);
        r = glebe_heap_realloc(heap, r, 9000);
        assert_non_null(r);
        if (alignment % 64 == 0)
            glebe_heap_free(heap, r);
        fixture_check();
    }
    glebe_heap_destroy(heap);
    fixture_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_growth_is_by_need),
        FIXTURE_TEST(test_peak_of_growing_memory),
        FIXTURE_TEST(test_free_blocks_merge),
        FIXTURE_TEST(test_resize_in_place),
        FIXTURE_TEST(test_table_moves),
        FIXTURE_TEST(test_somebody_else_grows),
        FIXTURE_TEST(test_fresh_memory_is_zero),
        FIXTURE_TEST(test_end_of_memory),
        FIXTURE_TEST(test_heaps_are_large_blocks),
        FIXTURE_TEST(test_checker_sees_tags),
        FIXTURE_TEST(test_warm_and_aligned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
