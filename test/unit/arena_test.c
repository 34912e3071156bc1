/* The arena: where it takes runs of slices and how they merge again, and which memory is known to be zero. What happens
 * when memory, address space or a limit runs out. */
#include "fixture.h"

static glebe_heap *self(void)
{
    glebe_heap *heap = gb_thread_start();
    assert_non_null(heap);
    return heap;
}

static gb_page *take(uint32_t slices, uint32_t alignment)
{
    bool zero;
    gb_page *page = gb_run_take(self(), GB_LARGE, slices, alignment, &zero);
    assert_non_null(page);
    assert_int_equal(page->slices, slices);
    assert_int_equal(gb_large_slice(page) % GB_CHUNK_SLICES % alignment, 0);
    fixture_check();
    return page;
}

static void test_first_slice_is_never_given(void **state)
{
    (void)state;
    assert_int_equal(gb_large_slice(take(4, 1)), 1);
    assert_null(gb_page_entry((void *)(gb_the.base - 1)));
    assert_int_equal(gb_entry_at(0)->kind, GB_RESERVED);
    gb_page *whole = take(GB_CHUNK_SLICES, 1); /* only a later chunk has so many */
    assert_int_equal(gb_large_slice(whole) % GB_CHUNK_SLICES, 0);
}

static void test_entries_of_a_page(void **state)
{
    (void)state;
    void *block = glebe_malloc(40000);
    gb_page *page = gb_page_head(gb_page_entry(block));
    assert_in_range(page->slices, 3, GB_CHUNK_SLICES);
    for (uint32_t i = 0; i < page->slices; i++) {
        const unsigned char *inside = (unsigned char *)gb_page_start(page) + i * GB_SLICE_BYTES + 77;
        assert_ptr_equal(gb_page_entry(inside), page + i);
        assert_ptr_equal(gb_page_head(gb_page_entry(inside)), page);
        assert_ptr_equal(gb_page_around(inside), page);
    }
    glebe_free(block);
    fixture_thread(1);
    fixture_release();
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(page[i].back_bytes, 0);
        assert_int_equal(page[i].kind, GB_FREE);
    }
}

/* A large block has a record, and its slices keep the entries of free ones. */
static void test_record_of_a_large_block(void **state)
{
    (void)state;
    gb_page *large = take(5, 1), *next = take(4, 1), *more = take(9, 1);
    uintptr_t start = gb_large_start(large);
    assert_true(large != next && next != more);
    assert_int_equal(gb_large_start(next), start + 5 * GB_SLICE_BYTES);
    assert_int_equal(gb_large_start(more), start + 9 * GB_SLICE_BYTES);
    for (uint32_t i = 0; i < 18; i++) {
        const unsigned char *inside = (unsigned char *)start + i * GB_SLICE_BYTES + 77;
        const gb_page *entry = gb_page_entry(inside);
        assert_true(entry->kind == GB_FREE && entry->back_bytes == 0 && gb_load(&entry->owner) == 0);
        assert_ptr_equal(gb_page_around(inside), i < 5 ? large : i < 9 ? next : more);
        assert_null(gb_large_at(inside));
        assert_ptr_equal(gb_large_at(inside - 77), i == 0 ? large : i == 5 ? next : i == 9 ? more : NULL);
    }
    assert_int_equal(gb_page_around((void *)(start + 18 * GB_SLICE_BYTES))->kind, GB_FREE);
    assert_true(gb_fake_is(start, 18 * GB_SLICE_BYTES, FAKE_COMMITTED));
    assert_ptr_equal(gb_page_at(gb_page_id_of(large)), large); /* records are on lists like pages */
    gb_run_give(next);
    assert_null(gb_large_at((void *)(start + 5 * GB_SLICE_BYTES)));
    assert_int_equal(gb_page_around((void *)(start + 5 * GB_SLICE_BYTES))->kind, GB_FREE);
    fixture_check();
    gb_run_give(large);
    gb_run_give(more);
    fixture_release();
}

/* Misuse of addresses inside a large block is reported, and changes nothing. */
static void test_inside_a_large_block(void **state)
{
    (void)state;
    char *block = glebe_malloc(300000);
    uint64_t errors = glebe_live.stats.errors;
    for (size_t at = 16; at < 300000; at += GB_SLICE_BYTES / 2) {
        glebe_free(block + at);
        assert_int_equal(glebe_usable_size(block + at), 0);
        assert_null(glebe_realloc(block + at, 400000));
        errors += 3;
    }
    assert_int_equal(glebe_live.stats.errors, errors);
    fixture_check();
    assert_true(glebe_heap_owns(NULL, block));
    assert_int_equal(gb_block_start(block + 250000), (uintptr_t)block);
    assert_in_range(glebe_usable_size(block), 300000, 300000 + GB_SLICE_BYTES);
    glebe_free(block);
    assert_int_equal(gb_block_start(block + 250000), 0);
    glebe_free(block);
    assert_int_equal(glebe_live.stats.errors, errors + 1);
}

/* Short blocks have runs if their alignment is large. No two begin in slices of one record. */
static void test_short_blocks_with_alignment(void **state)
{
    (void)state;
    enum { N = 60 };
    char *blocks[N];
    for (int i = 0; i < N; i++) {
        size_t alignment = (size_t)32 << 10 << i % 6;
        blocks[i] = i % 4 == 3 ? glebe_malloc(100000) : glebe_aligned_alloc(alignment, (size_t)1 + (size_t)i * 1000);
        assert_non_null(blocks[i]);
        assert_int_equal(i % 4 == 3 ? 0 : (uintptr_t)blocks[i] % alignment, 0);
        memset(blocks[i], i, (size_t)1 + (size_t)i * 1000);
        fixture_check();
    }
    for (int i = 0; i < N; i++) {
        assert_int_equal(blocks[i][0], i);
        glebe_free(blocks[i]);
        fixture_check();
    }
    fixture_balance();
}

static void test_best_fit_and_joining(void **state)
{
    (void)state;
    gb_page *a = take(10, 1), *b = take(4, 1), *c = take(20, 1), *d = take(4, 1);
    gb_run_give(a);
    gb_run_give(c);
    assert_ptr_equal(take(9, 1), a); /* 10 fits better than 20 or the rest */
    assert_ptr_equal(take(18, 1), c);
    gb_run_give(b);
    fixture_check();
    gb_run_give(a);
    gb_run_give(c); /* a, b and c are one free run now: 34 slices */
    assert_ptr_equal(take(34, 1), a);
    (void)d;
}

static void test_alignment(void **state)
{
    (void)state;
    for (uint32_t alignment = 1; alignment <= 64; alignment *= 2)
        for (uint32_t slices = 4; slices <= 64; slices += 9) {
            gb_page *page = take(slices, alignment);
            assert_int_equal(gb_large_start(page) % (alignment * GB_SLICE_BYTES), 0);
        }
}

static void test_resize(void **state)
{
    (void)state;
    gb_page *page = take(8, 1), *next = take(8, 1);
    assert_false(gb_run_resize(page, 9));
    gb_run_give(next);
    assert_true(gb_run_resize(page, 16));
    fixture_check();
    assert_true(gb_run_resize(page, 5));
    fixture_check();
    assert_int_equal(gb_load(&self()->bytes), 5 * GB_SLICE_BYTES);
    assert_int_equal(gb_large_slice(take(4, 1)), gb_large_slice(page) + 5);
    assert_false(gb_run_resize(page, 6));
    gb_page *end = take(GB_CHUNK_SLICES, 1);
    gb_run_give(end);
    end = take(100, 1);
    assert_false(gb_run_resize(end, 200)); /* beyond the chunk's end */
    assert_true(gb_run_resize(end, GB_CHUNK_SLICES - gb_large_slice(end) % GB_CHUNK_SLICES));
    fixture_check();
}

static void test_zero_is_known(void **state)
{
    (void)state;
    bool zero = false;
    gb_page *page = gb_run_take(self(), GB_LARGE, 4, 1, &zero);
    assert_true(zero);
    memset((void *)gb_large_start(page), 1, 4 * GB_SLICE_BYTES);
    gb_run_give(page);
    gb_page *again = gb_run_take(self(), GB_LARGE, 5, 1, &zero);
    assert_ptr_equal(again, page);
    assert_false(zero);
    gb_run_give(again);
    assert_true(glebe_trim(NULL) > 0);
    fixture_check();
    again = gb_run_take(self(), GB_LARGE, 5, 1, &zero);
    assert_ptr_equal(again, page);
    assert_true(zero);
    assert_true(fixture_zero((void *)gb_large_start(again), 5 * GB_SLICE_BYTES));
}

static void test_shortest_row_that_fits(void **state)
{
    (void)state;
    gb_page *pages[4]; /* chunks whose longest free runs differ: the shortest that fits is used */
    for (uint32_t i = 0; i < 4; i++)
        pages[i] = take(GB_CHUNK_SLICES - 1 - i * 16, 1);
    for (uint32_t i = 1; i < 4; i++) {
        gb_page *page = take(i * 16 - 3, 1);
        assert_ptr_equal(gb_chunk_of(gb_large_slice(page)), gb_chunk_of(gb_large_slice(pages[i])));
    }
}

/* A gap of touched slices behind a large block. */
static void leave_gap(uint32_t slices)
{
    enum { BLOCK = 4 };
    gb_page *large = take(BLOCK + slices, 1);
    take(BLOCK, 1);
    assert_true(gb_run_resize(large, BLOCK));
    fixture_check();
}

static uint32_t taken_some(uint32_t least, uint32_t most)
{
    bool zero;
    const gb_page *page = gb_run_take_some(self(), GB_LARGE, least, most, &zero);
    assert_non_null(page);
    fixture_check();
    return page->slices;
}

/* A page may be shorter, if memory that was touched is too short for all of it. */
static void test_length_of_touched_rows(void **state)
{
    (void)state;
    assert_int_equal(taken_some(4, 16), 16); /* no memory was touched yet */
    leave_gap(8);
    assert_int_equal(taken_some(12, 16), 16);
    assert_int_equal(taken_some(4, 16), 8);
    assert_int_equal(taken_some(4, 16), 16);
    leave_gap(12);
    assert_int_equal(taken_some(4, 16), 12);
    leave_gap(20);
    assert_int_equal(taken_some(4, 16), 16);
    assert_int_equal(taken_some(4, 4), 4);
}

/* The same as a program sees it: a class in demand, whose pages would have four slices, fills gaps of three. */
static void test_pages_fill_short_gaps(void **state)
{
    (void)state;
    enum { BYTES = 2048, GAPS = 4, SLICES = 3, PER_SLICE = GB_SLICE_BYTES / BYTES };
    for (uint32_t i = 0; i < 2 * GB_DEMAND * GB_BIG_PAGE_SLICES * PER_SLICE; i++)
        assert_non_null(glebe_malloc(BYTES));
    for (uint32_t i = 0; i < GAPS; i++) {
        take(GB_CHUNK_SLICES / 2, 1); /* so much is in use that the gaps may be retained */
        leave_gap(SLICES);
    }
    uint64_t touched = gb_the.arena.dirty_slices;
    for (uint32_t i = 0; i < GAPS * SLICES * PER_SLICE; i++)
        assert_non_null(glebe_malloc(BYTES));
    assert_int_equal(glebe_live.stats.purged_bytes, 0);
    assert_int_equal(gb_the.arena.dirty_slices, touched - GAPS * SLICES);
    fixture_check();
}

static void test_commit_fails(void **state)
{
    (void)state;
    for (uint64_t at = 1; at < 12; at++) {
        fixture_start(at);
        gb_fake_fail(1u << GB_FAKE_COMMIT | 1u << GB_FAKE_RESERVE | 1u << GB_FAKE_PROPOSE, at, UINT64_MAX);
        uint64_t calls = 0;
        for (int i = 0; i < 4; i++) {
            errno = 0;
            void *p = glebe_malloc(900000);
            if (!p) {
                assert_int_equal(errno, ENOMEM);
                calls++;
            }
            fixture_check();
            fixture_balance();
        }
        assert_int_equal(glebe_live.stats.out_of_memory, calls);
        gb_fake_fail(0, 0, 0);
        assert_non_null(glebe_malloc(900000)); /* allocation works again when there is memory */
        fixture_check();
        fixture_balance();
    }
}

static void test_limits(void **state)
{
    (void)state;
    assert_int_equal(glebe_option("limit", "1M"), 0);
    void *p = glebe_malloc(500000), *q = glebe_malloc(500000);
    assert_non_null(p);
    assert_non_null(q);
    errno = 0;
    assert_null(glebe_malloc(100000));
    assert_int_equal(errno, ENOMEM);
    assert_null(glebe_malloc(2000000));
    assert_true(glebe_live.stats.peak_used_bytes <= 1u << 20);
    glebe_free(p);
    assert_non_null(glebe_malloc(100000));
    assert_int_equal(glebe_option("limit", "0"), 0);
    assert_non_null(glebe_malloc(2000000));
    fixture_check();
}

/* A limit below what is in use: blocks stay, and only requests for more memory fail, until enough is freed. */
static void test_a_limit_below_what_is_in_use(void **state)
{
    (void)state;
    enum { BLOCKS = 4, BYTES = 200000 };
    char *large[BLOCKS], *small = glebe_malloc(16), *other;
    for (int i = 0; i < BLOCKS; i++)
        memset(large[i] = glebe_malloc(BYTES), i, BYTES);
    assert_int_equal(glebe_option("limit", "300000"), 0);
    uint64_t held = glebe_live.stats.used_bytes, failed = glebe_live.stats.out_of_memory;
    assert_true(held > BLOCKS * BYTES);
    errno = 0;
    assert_null(glebe_malloc(70000));
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(glebe_live.stats.out_of_memory, failed + 1);
    other = glebe_malloc(16);
    assert_non_null(other); /* from the page of `small` */
    glebe_free(other);
    for (int i = 0; i < BLOCKS; i++) {
        assert_null(glebe_malloc(70000)); /* with one left too: 70,000 more would pass the limit */
        assert_true(large[i][0] == i && large[i][BYTES - 1] == i);
        glebe_free(large[i]);
    }
    other = glebe_malloc(70000);
    assert_non_null(other);
    assert_true(glebe_live.stats.used_bytes <= 300000);
    glebe_free(other);
    glebe_free(small);
    assert_int_equal(glebe_option("limit", "0"), 0);
    fixture_check();
}

/* A request that failed does not count in the peak. */
static void test_peak_is_what_was_used(void **state)
{
    (void)state;
    void *p = glebe_malloc(100000);
    uint64_t used = glebe_live.stats.used_bytes;
    fake.memory_bytes = fake.committed_bytes + 100000;
    assert_null(glebe_malloc((size_t)64 << 20));
    assert_int_equal(glebe_live.stats.used_bytes, used);
    assert_int_equal(glebe_live.stats.peak_used_bytes, used);
    void *q = glebe_realloc(p, (size_t)64 << 20);
    assert_null(q);
    assert_int_equal(glebe_live.stats.peak_used_bytes, used);
}

static void test_taken_chunks_are_passed_over(void **state)
{
    (void)state;
    fake.address_bytes = (size_t)64 << 20;
    void *p = glebe_malloc(1000);
    assert_false(gb_the.reserved);
    fake.taken_from = gb_the.base + GB_CHUNK_BYTES + 12345;
    fake.taken_to = fake.taken_from + GB_CHUNK_BYTES;
    for (int i = 0; i < 6; i++) {
        void *q = glebe_malloc(1000000);
        assert_non_null(q);
        assert_true((uintptr_t)q >= fake.taken_to || (uintptr_t)q + 1000000 <= fake.taken_from);
        memset(q, 1, 1000000);
        fixture_check();
    }
    glebe_free((void *)(fake.taken_from + 100)); /* foreign, though between our slices */
    assert_int_equal(glebe_live.stats.errors, 1);
    glebe_free(p);
    fixture_balance();
}

static void test_address_space_ends(void **state)
{
    (void)state;
    if (sizeof(void *) != 8)
        return;
    fake.address_bytes = (size_t)64 << 20; /* the core chooses a place four times as large */
    int count = 0;
    while (glebe_malloc(1000000) && count < 1000)
        count++;
    assert_in_range(count, 100, 400);
    fixture_check();
    fixture_balance();
}

/* From 64 MiB on chunks ask for huge pages. One in eight is timed; while these are slow, more and more chunks do not
 * ask. */
static void test_huge_pages_are_left_where_they_are_slow(void **state)
{
    (void)state;
    enum { FIRST = GB_HUGE_PAGES_FROM >> GB_CHUNK_LOG2, QUICK = FIRST + 17, SLOW = QUICK + 31, LAST = SLOW + 33 };
    fake.memory_bytes = (size_t)1 << 30;
    for (uint32_t chunk = 0; chunk < LAST; chunk++) {
        fake.huge_slow = chunk >= QUICK && chunk < SLOW;
        take(GB_CHUNK_SLICES - (chunk == 0), 1);
        bool asks = chunk >= FIRST && chunk % 16 != 14; /* chunk 14 of 16 is a sample */
        if (chunk >= QUICK) /* the first is timed; then 1, 2, 4, 8 and 16 chunks that are no samples do not ask */
            asks = (chunk >= QUICK + 38 && asks) || chunk == QUICK || chunk == QUICK + 2 || chunk == QUICK + 5
                || chunk == QUICK + 10 || chunk == QUICK + 20;
        assert_int_equal(gb_chunk_at(chunk)->huge_pages, asks);
    }
    assert_int_equal(fake.huge_looks, 2 + 5 + 3);
    assert_int_equal(glebe_live.stats.huge_page_bytes, fake.huge_bytes);
}

/* If the samples show that memory stays sparse, or the option forbids it, no chunk asks. */
static void test_huge_pages_are_for_what_fills(void **state)
{
    (void)state;
    enum { FIRST = GB_HUGE_PAGES_FROM >> GB_CHUNK_LOG2, DENSE = FIRST + 16, OFF = DENSE + 16, LAST = OFF + 16 };
    fake.memory_bytes = (size_t)1 << 30;
    fake.sparse = true;
    for (uint32_t chunk = 0; chunk < LAST; chunk++) {
        if (chunk == DENSE)
            fake.sparse = false;
        if (chunk == OFF)
            assert_int_equal(glebe_option("huge_pages", "0"), 0);
        take(GB_CHUNK_SLICES - (chunk == 0), 1);
        assert_int_equal(gb_chunk_at(chunk)->huge_pages, chunk >= DENSE && chunk < OFF && chunk % 16 != 14);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_first_slice_is_never_given),
        FIXTURE_TEST(test_entries_of_a_page),
        FIXTURE_TEST(test_record_of_a_large_block),
        FIXTURE_TEST(test_inside_a_large_block),
        FIXTURE_TEST(test_short_blocks_with_alignment),
        FIXTURE_TEST(test_best_fit_and_joining),
        FIXTURE_TEST(test_alignment),
        FIXTURE_TEST(test_resize),
        FIXTURE_TEST(test_zero_is_known),
        FIXTURE_TEST(test_shortest_row_that_fits),
        FIXTURE_TEST(test_length_of_touched_rows),
        FIXTURE_TEST(test_pages_fill_short_gaps),
        FIXTURE_TEST(test_commit_fails),
        FIXTURE_TEST(test_limits),
        FIXTURE_TEST(test_a_limit_below_what_is_in_use),
        FIXTURE_TEST(test_peak_is_what_was_used),
        FIXTURE_TEST(test_taken_chunks_are_passed_over),
        FIXTURE_TEST(test_address_space_ends),
        FIXTURE_TEST(test_huge_pages_are_left_where_they_are_slow),
        FIXTURE_TEST(test_huge_pages_are_for_what_fills),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
