/* Medium and large blocks: bits and counts, which memory calloc need not clear, what the purger may take meanwhile, and
 * resizing in place. */
#include "fixture.h"

static gb_page *page_of(const void *block)
{
    return gb_page_head(gb_page_entry(block));
}

static void test_every_class(void **state)
{
    (void)state;
    void *blocks[80];
    for (uint32_t cls = GB_SMALL_CLASSES; cls < GB_CLASSES; cls++) {
        size_t bytes = gb_classes[cls].bytes;
        for (int i = 0; i < 80; i++) {
            blocks[i] = glebe_malloc(bytes - (size_t)(i % 16));
            assert_int_equal(glebe_usable_size(blocks[i]), bytes);
            assert_int_equal(page_of(blocks[i])->cls, cls);
            fixture_fill(blocks[i], 64, (uint64_t)i);
        }
        fixture_check();
        for (int i = 0; i < 80; i++) {
            int k = i * 37 % 80;
            assert_true(fixture_filled(blocks[k], 64, (uint64_t)k));
            glebe_free(blocks[k]);
        }
        fixture_check();
    }
    fixture_release();
}

/* Blocks that are replaced at random need no new page: the next request finds each block that was freed, also in a page
 * that was full. */
static void test_each_free_block_is_found(void **state)
{
    (void)state;
    enum { BYTES = 2816, BLOCKS = 400, TOGETHER = 8 };
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = glebe_malloc(BYTES);
    uint64_t used = glebe_live.stats.used_bytes;
    for (uint32_t round = 0, at = 1; round < 10 * BLOCKS; round++) {
        uint32_t replaced[TOGETHER];
        for (int i = 0; i < TOGETHER; i++) {
            at = at * 1664525u + 1013904223u;
            replaced[i] = at / 65536 % BLOCKS;
            glebe_free(blocks[replaced[i]]);
            blocks[replaced[i]] = NULL;
        }
        for (int i = 0; i < TOGETHER; i++)
            if (!blocks[replaced[i]])
                blocks[replaced[i]] = glebe_malloc(BYTES);
    }
    fixture_check();
    assert_int_equal(glebe_live.stats.used_bytes, used);
    for (int i = 0; i < BLOCKS; i++)
        glebe_free(blocks[i]);
    fixture_release();
}

static void test_calloc_clears_what_it_must(void **state)
{
    (void)state;
    void *blocks[64];
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < 64; i++) {
            size_t bytes = 3000 + (size_t)(i % 7) * 3000;
            blocks[i] = glebe_calloc(1, bytes);
            assert_true(fixture_zero(blocks[i], bytes));
            memset(blocks[i], 0xcc, glebe_usable_size(blocks[i]));
        }
        for (int i = 0; i < 64; i += 1 + round % 2)
            glebe_free(blocks[i]);
        if (round == 2 || round == 4)
            glebe_trim(NULL);
        fixture_check();
    }
}

static struct {
    gb_page *page;
    uint32_t bits;
    int waits;
} purger;

static void purger_ends(_Atomic uint32_t *word, uint32_t expected, uint32_t ms)
{
    (void)expected;
    (void)ms;
    assert_ptr_equal(word, &gb_the.lock.word);
    purger.waits++;
    gb_or(&purger.page->bits, purger.bits);
    gb_lock_drop(&gb_the.lock);
}

/* While the purger holds a page's free bits its owner finds none, waits for the lock, and finds them again. This holds
 * even if no block of the page is in use: on the list of full pages nothing would wake it. */
static void test_owner_waits_for_the_purger(void **state)
{
    (void)state;
    for (int out = 0; out < 2; out++) {
        fixture_start(1);
        void *p = glebe_malloc(5000), *q = glebe_malloc(5000);
        purger.page = page_of(p);
        assert_ptr_equal(page_of(q), purger.page);
        glebe_free(q);
        if (!out)
            glebe_free(p);
        gb_heap_cool(gb_self);
        gb_lock_take(&gb_the.lock);
        purger.bits = gb_swap(&purger.page->bits, 0);
        purger.waits = 0;
        fake.on_wait = purger_ends;
        q = glebe_malloc(5000);
        assert_ptr_equal(page_of(q), purger.page);
        assert_int_equal(purger.waits, 1);
        fixture_check();
    }
}

/* The owner claims a block before the thread that freed it has counted it; the page is full then, with one block more
 * out than it has. */
static void test_claimed_before_it_is_counted(void **state)
{
    enum { BYTES = 5000 };
    (void)state;
    void *first = glebe_malloc(BYTES), *last = first, *more[64];
    gb_page *page = page_of(first);
    int count = 0;
    for (; page_of(last) == page && page->out < page->cap; count++)
        last = more[count] = glebe_malloc(BYTES);
    gb_or(&page->bits, 1); /* another thread frees the first block */
    assert_ptr_equal(glebe_malloc(BYTES), first);
    more[count++] = glebe_malloc(BYTES);
    assert_int_equal(page->state, GB_FULL);
    assert_int_equal(page->out, page->cap + 1);
    gb_remote_notify(page);
    fixture_check();
    gb_inbox_drain(gb_self);
    assert_int_equal(page->out, page->cap);
    fixture_check();
    glebe_free(first);
    while (count--)
        glebe_free(more[count]);
    fixture_release();
}

static void test_purge_gives_free_blocks_back(void **state)
{
    (void)state;
    unsigned char *blocks[30];
    for (int i = 0; i < 30; i++) {
        blocks[i] = glebe_malloc(20000); /* 20480: five OS pages */
        memset(blocks[i], 0xaa, 20000);
    }
    for (int i = 0; i < 30; i++)
        if (i % 5 != 0)
            glebe_free(blocks[i]);
    fixture_check();
    uint64_t before = fake.purged_bytes;
    glebe_trim(NULL);
    assert_true(fake.purged_bytes - before >= 20 * 16384);
    fixture_check(); /* memory said to be zero is zero */
    for (int i = 0; i < 30; i += 5)
        for (size_t k = 0; k < 20000; k++)
            assert_int_equal(blocks[i][k], 0xaa);
    for (int i = 0; i < 30; i++) {
        unsigned char *p = glebe_calloc(1, 20480);
        assert_true(fixture_zero(p, 20480));
        memset(p, 0xbb, 20480);
    }
    fixture_check();
}

/* In a busy chunk only memory free since the purger's last visit is purged. */
static void test_idle_blocks(void **state)
{
    (void)state;
    void *keep = glebe_malloc(4096), *left = glebe_malloc(4096), *busy = glebe_malloc(4096);
    memset(left, 1, 4096);
    memset(busy, 1, 4096);
    gb_page *page = page_of(keep);
    assert_ptr_equal(page_of(busy), page);
    glebe_heap *heap = gb_self;
    gb_heap_cool(heap);
    glebe_free(left);
    gb_heap_cool(heap);
    for (int i = 0; i < 3; i++) {
        fake.now_ms += GB_PURGE_MS;
        glebe_free(busy);
        gb_heap_cool(heap);
        gb_store(&gb_the.now_ms, fake.now_ms);
        gb_store(&gb_chunk_of(gb_slice_of(page))->touched_ms, fake.now_ms);
        gb_purge_due(fake.now_ms, false);
        fixture_check();
        busy = glebe_malloc(4096);
        memset(busy, 1, 4096);
    }
    fixture_check();
    (void)keep;
}

static void test_large_in_place(void **state)
{
    (void)state;
    unsigned char *p = glebe_malloc(100000), *q;
    fixture_fill(p, 100000, 1);
    q = glebe_realloc(p, 240000); /* nothing lies behind it yet */
    assert_ptr_equal(q, p);
    assert_int_equal(glebe_usable_size(p), gb_round_up(240000, GB_SLICE_BYTES));
    assert_ptr_equal(glebe_realloc(p, 70000), p);
    void *behind = glebe_malloc(100000);
    q = glebe_realloc(p, 240000);
    assert_ptr_not_equal(q, p);
    assert_true(fixture_filled(q, 70000, 1));
    q = glebe_realloc(q, 900000);
    assert_true(fixture_filled(q, 70000, 1));
    fixture_check();
    q = glebe_realloc(q, 3000000); /* to a huge block, and down again */
    assert_true(fixture_filled(q, 70000, 1));
    q = glebe_realloc(q, 80000);
    assert_true(fixture_filled(q, 70000, 1));
    q = glebe_realloc(q, 5000);
    q = glebe_realloc(q, 50);
    assert_true(fixture_filled(q, 50, 1));
    fixture_check();
    glebe_free(q);
    glebe_free(behind);
    fixture_release();
}

static void test_large_alignment(void **state)
{
    (void)state;
    for (size_t alignment = 16; alignment <= GB_LARGE_MAX; alignment *= 2)
        for (size_t bytes = 1; bytes <= GB_LARGE_MAX; bytes = bytes * 3 + 1) {
            void *p = glebe_aligned_alloc(alignment, bytes);
            assert_non_null(p);
            assert_int_equal((uintptr_t)p % alignment, 0);
            assert_true(glebe_usable_size(p) >= bytes);
            memset(p, 1, bytes);
            if (bytes % 2)
                glebe_free(p);
        }
    fixture_check();
}

static void test_misuse_is_reported(void **state)
{
    (void)state;
    char *medium = glebe_malloc(5000), *large = glebe_malloc(100000);
    glebe_free(medium + 8);
    assert_int_equal(glebe_live.stats.errors, 1);
    glebe_free(large + GB_SLICE_BYTES);
    assert_int_equal(glebe_live.stats.errors, 2);
    glebe_free(medium);
    glebe_free(medium);
    assert_int_equal(glebe_live.stats.errors, 3);
    glebe_free(large);
    glebe_free(large);
    assert_int_equal(glebe_live.stats.errors, 4);
    fixture_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_every_class),
        FIXTURE_TEST(test_each_free_block_is_found),
        FIXTURE_TEST(test_calloc_clears_what_it_must),
        FIXTURE_TEST(test_owner_waits_for_the_purger),
        FIXTURE_TEST(test_claimed_before_it_is_counted),
        FIXTURE_TEST(test_purge_gives_free_blocks_back),
        FIXTURE_TEST(test_idle_blocks),
        FIXTURE_TEST(test_large_in_place),
        FIXTURE_TEST(test_large_alignment),
        FIXTURE_TEST(test_misuse_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
