/* The secure build: counts that only it has. */
#define GB_SECURE 1
#include "fixture.h"

static gb_page *page_of(const void *block)
{
    return gb_page_head(gb_page_entry(block));
}

/* A list from another thread that passes a trim mark; some of its blocks are counted only after the walk. */
static void test_a_chain_passes_a_mark(void **state)
{
    (void)state;
    enum { BYTES = 64, N = 2000, CHAIN = 20 };
    static unsigned char *blocks[N];
    gb_the.options.background = 1;
    gb_store(&gb_the.now_ms, fake.now_ms += GB_PURGE_MS);
    for (int i = 0; i < N; i++)
        fixture_fill(blocks[i] = glebe_malloc(BYTES), BYTES, (uint64_t)i);
    gb_page *page = page_of(blocks[N / 2]);
    uint32_t out = page->cap;
    int i = 0;
    for (; page->state == GB_FULL || page->left > CHAIN / 2; i++)
        if (page_of(blocks[i]) == page) {
            glebe_free(blocks[i]);
            out--;
        }
    assert_int_equal(page->state, GB_AVAIL);
    assert_int_not_equal(page->mark, 0);
    fixture_thread(1);
    assert_non_null(glebe_malloc(1));
    for (int n = 0; n < CHAIN; i++)
        if (page_of(blocks[i]) == page) {
            glebe_free(blocks[i]);
            n++;
        }
    gb_remote_flush(gb_self);
    fixture_thread(0);
    gb_inbox_drain(gb_self);
    assert_int_equal(gb_page_out(page), out - CHAIN);
    fixture_check();
    for (; i < N; i++)
        assert_true(fixture_filled(blocks[i], BYTES, (uint64_t)i));
}

/* A block has the bytes that were requested. A write of one byte behind them is one report, at the free. */
static void test_one_byte_too_many_is_found(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 8, 9, 24, 100, 2040, 2041, 5000, 65528};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *sound = glebe_malloc(sizes[i]), *block = glebe_malloc(sizes[i]);
        assert_int_equal(glebe_usable_size(block), sizes[i]);
        uint64_t before = glebe_live.stats.errors;
        memset(sound, 0xff, sizes[i]);
        glebe_free(sound);
        assert_int_equal(glebe_live.stats.errors, before);
        block[sizes[i]] ^= 1;
        glebe_free(block);
        assert_int_equal(glebe_live.stats.errors, before + 1);
    }
}

static void *resized_to(size_t from, size_t bytes)
{
    return glebe_realloc(glebe_malloc(from), bytes);
}

enum { WAYS = 10 };

/* Returns a block of so many bytes, made in one of several ways. */
static unsigned char *made(int way, size_t bytes)
{
    enum { HUGE_BYTES = 3 << 20 };
    switch (way) {
    case 0: return glebe_malloc(bytes);
    case 1: return glebe_calloc(1, bytes);
    case 2: return resized_to(bytes / 3, bytes);
    case 3: return resized_to(bytes - 1, bytes);
    case 4: return resized_to(2 * bytes, bytes);
    case 5: return resized_to(HUGE_BYTES, bytes);
    case 6: return glebe_aligned_alloc(64, bytes);
    case 7: return glebe_aligned_alloc(4096, bytes);
    case 8: return glebe_aligned_alloc(GB_SLICE_BYTES, bytes);
    default: return glebe_heap_malloc(NULL, bytes);
    }
}

/* The last sizes up to 64 KiB, at each level and from each function: a block has the bytes that were requested, and one
 * byte more is one report when it is freed, and when it is resized. */
static void test_the_last_medium_sizes_have_an_end(void **state)
{
    (void)state;
    static const size_t sizes[] = {65520, 65527, 65528, 65529, 65532, 65535, 65536};
    for (uint32_t level = GB_SECURE_MOST; level > 0; level--) { /* blocks that were freed at level 1 are not zero */
        gb_the.options.secure = level;
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int way = 0; way < WAYS; way++) {
                unsigned char *block = made(way, sizes[i]);
                assert_non_null(block);
                uint64_t before = glebe_live.stats.errors;
                assert_int_equal(glebe_usable_size(block), sizes[i]);
                memset(block, 0xff, sizes[i]);
                glebe_free(block);
                assert_int_equal(glebe_live.stats.errors, before);
                block = made(way, sizes[i]);
                block[sizes[i]] ^= 1;
                glebe_free(block);
                assert_int_equal(glebe_live.stats.errors, before + 1);
                block = made(way, sizes[i]);
                block[sizes[i]] ^= 1;
                assert_non_null(block = glebe_realloc(block, sizes[i] - 1));
                glebe_free(block);
                assert_int_equal(glebe_live.stats.errors, before + 2);
            }
    }
    gb_the.options.secure = 0;
    fixture_check();
}

/* The bytes between a block's end and its tail: a write of one byte of text, zero or 0xff there is found, and one of a
 * word of any byte. One byte from 0x80 to 0xfe may be the one that is there. */
static void test_every_byte_too_many_is_found(void **state)
{
    (void)state;
    enum { VALUES = 256 };
    static const size_t sizes[] = {64, 300, 5000, 50000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int value = 0; value < VALUES; value++) {
            unsigned char *block = glebe_malloc(sizes[i]);
            size_t slack = gb_classes[page_of(block)->cls].bytes - GB_TAIL_BYTES - sizes[i];
            assert_true(slack >= sizeof(uint64_t));
            uint64_t before = glebe_live.stats.errors;
            memset(block + sizes[i], value, value < 0x80 || value == 0xff ? 1 : sizeof(uint64_t));
            glebe_free(block);
            assert_int_equal(glebe_live.stats.errors, before + 1);
        }
}

/* A write to a free block is one report, though its neighbours are looked at again and again at level 3. */
static void test_a_write_after_free_is_one_report(void **state)
{
    (void)state;
    static const size_t sizes[] = {40, 100, 1000};
    if (!GB_TAIL_ATOMIC) /* neighbours are not looked at */
        skip();
    gb_the.options.secure = GB_SECURE_MOST;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        enum { N = 100 };
        unsigned char *blocks[N];
        for (int n = 0; n < N; n++)
            blocks[n] = glebe_malloc(sizes[i]);
        uint64_t before = glebe_live.stats.errors;
        glebe_free(blocks[N / 2]);
        blocks[N / 2][8] = 1;
        for (int n = 0; n < N; n++)
            if (n != N / 2)
                glebe_free(blocks[n]);
        for (int n = 0; n < N; n++)
            assert_non_null(glebe_malloc(sizes[i]));
        assert_int_equal(glebe_live.stats.errors, before + 1);
    }
    gb_the.options.secure = 0;
}

/* The same for a medium block whose page became empty and went back to the arena. */
static void test_a_write_to_an_empty_medium_page_is_one_report(void **state)
{
    (void)state;
    static const size_t sizes[] = {17000, 20000, 30000, 40000, 65528, 65536};
    enum { N = 40 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int others = 0; others < N; others += N / 2) {
            unsigned char *blocks[N];
            for (int n = 0; n <= others; n++)
                memset(blocks[n] = glebe_malloc(sizes[i]), 0xff, sizes[i]);
            for (int n = 0; n <= others; n++)
                glebe_free(blocks[n]);
            assert_int_equal(glebe_live.stats.errors, 0);
            blocks[others][sizes[i] / 2] = 1;
            for (int n = 0; n < N; n++)
                assert_non_null(blocks[n] = glebe_calloc(1, sizes[i]));
            assert_int_equal(glebe_live.stats.errors, 1);
            for (int n = 0; n < N; n++) {
                assert_true(gb_words_zero(blocks[n], sizes[i] / 8 * 8));
                glebe_free(blocks[n]);
            }
            assert_int_equal(glebe_live.stats.errors, 1);
            glebe_live.stats.errors = 0;
        }
    fixture_check();
}

/* A block that shrinks in place has its new end; what is behind it is zero when the block comes back. */
static void test_a_resized_block_has_its_new_end(void **state)
{
    (void)state;
    unsigned char *block = glebe_malloc(6000);
    memset(block, 0xff, 6000);
    assert_ptr_equal(glebe_realloc(block, 4000), block);
    assert_int_equal(glebe_usable_size(block), 4000);
    glebe_free(block);
    for (int i = 0; i < 40; i++)
        assert_non_null(glebe_malloc(6000));
    assert_int_equal(glebe_live.stats.errors, 0);
}

/* Where the host has no mapping for an extent, a large block has no guard. That is said once, except where address
 * space is what ended: 32-bit hosts always count as such. */
static void test_large_blocks_do_without_a_guard(void **state)
{
    (void)state;
    enum { BYTES = 100000 };
    unsigned char *guarded = glebe_malloc(BYTES), *small = glebe_malloc(100), *blocks[3];
    assert_non_null(small);
    assert_true(gb_extent_of(guarded) != NULL);
    gb_fake_fail(1u << GB_FAKE_COMMIT, 1, UINT32_MAX);
    for (int i = 0; i < 3; i++) {
        blocks[i] = glebe_malloc(BYTES);
        assert_non_null(blocks[i]);
        assert_true(gb_extent_of(blocks[i]) == NULL);
        fixture_fill(blocks[i], BYTES, (uint64_t)i);
    }
    const char *said = strstr(fake.printed, "no more mappings");
    assert_true((said != NULL) == !gb_the.limited);
    assert_true(!said || !strstr(said + 1, "no more mappings"));
    for (int i = 0; i < 3; i++) {
        assert_true(fixture_filled(blocks[i], BYTES, (uint64_t)i));
        glebe_free(blocks[i]);
    }
    gb_fake_fail(0, 0, 0);
    assert_true(gb_extent_of(glebe_malloc(BYTES)) != NULL);
    assert_int_equal(glebe_live.stats.errors, 0);
}

/* free() of a small block reads the tail first. Wrong addresses in the last page of a chunk, up to its end, lead it to
 * no word behind the chunk, and are reports. Long pages leave that page to the first, short one of another size. */
static void test_wrong_addresses_at_the_end_of_a_chunk(void **state)
{
    (void)state;
    enum { LONG = 200, FILL = GB_CHUNK_BYTES / LONG, LAST = 240, TIMES = GB_SLICE_BYTES / 16 };
    for (int i = 0; i < FILL; i++)
        assert_non_null(glebe_malloc(LONG));
    for (size_t bytes = 8; bytes <= LAST; bytes += 16)
        for (size_t i = 0; i < TIMES; i++) {
            char *block = glebe_malloc(bytes);
            gb_page *page = page_of(block);
            uintptr_t end = gb_page_start(page) + gb_page_bytes(page);
            size_t size = gb_classes[page->cls].bytes, beyond = end - (uintptr_t)block;
            if ((end - gb_the.base) % GB_CHUNK_BYTES != 0 || beyond >= 2 * size)
                continue;
            for (size_t inside = 1; inside < beyond; inside++) {
                glebe_free(block + inside);
                assert_int_equal(glebe_live.stats.errors, inside);
            }
            glebe_free(block);
            assert_int_equal(glebe_live.stats.errors, beyond - 1);
            return;
        }
    fail();
}

/* Blocks of a heap that was destroyed are none of those that the page has later. */
static void test_no_tail_outlives_its_heap(void **state)
{
    (void)state;
    enum { BYTES = 40, N = 1000 };
    static char *blocks[N];
    glebe_heap *heap = glebe_heap_create(0);
    for (int i = 0; i < N; i++)
        blocks[i] = glebe_heap_malloc(heap, BYTES);
    glebe_heap_destroy(heap);
    const gb_page *page = NULL;
    for (int i = 0; i < 10 * N && page != page_of(blocks[N - 1]); i++)
        page = page_of(glebe_malloc(BYTES));
    assert_ptr_equal(page, page_of(blocks[N - 1]));
    uint64_t stale = 0;
    for (int i = 0; i < N; i++) {
        uint32_t index;
        size_t offset = (uintptr_t)blocks[i] - gb_page_start(page);
        if (page_of(blocks[i]) == page && gb_class_exact(page->cls, offset, &index) && index >= page->bump) {
            glebe_free(blocks[i]);
            stale++;
        }
    }
    assert_true(stale > 10);
    assert_int_equal(glebe_live.stats.errors, stale);
    fixture_check();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_a_chain_passes_a_mark),
        FIXTURE_TEST(test_one_byte_too_many_is_found),
        FIXTURE_TEST(test_the_last_medium_sizes_have_an_end),
        FIXTURE_TEST(test_every_byte_too_many_is_found),
        FIXTURE_TEST(test_a_write_after_free_is_one_report),
        FIXTURE_TEST(test_a_write_to_an_empty_medium_page_is_one_report),
        FIXTURE_TEST(test_a_resized_block_has_its_new_end),
        FIXTURE_TEST(test_wrong_addresses_at_the_end_of_a_chunk),
        FIXTURE_TEST(test_no_tail_outlives_its_heap),
        FIXTURE_TEST(test_large_blocks_do_without_a_guard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
