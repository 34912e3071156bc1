/* Purging: when, how much, and that purged memory is zero and known to be zero. */
#include "fixture.h"

static void purge_now(void)
{
    gb_store(&gb_the.now_ms, fake.now_ms);
    gb_purge_due(fake.now_ms, false);
}

static void test_after_the_delay(void **state)
{
    (void)state;
    unsigned char *p = glebe_malloc(500000);
    memset(p, 0xdd, 500000);
    glebe_free(p);
    assert_int_equal(gb_purge_wait(fake.now_ms), GB_PURGE_MS);
    fake.now_ms += GB_PURGE_MS - 1;
    purge_now();
    assert_int_equal(fake.purged_bytes, 0);
    assert_int_equal(gb_purge_wait(fake.now_ms), 1);
    fake.now_ms += 1;
    purge_now();
    assert_in_range(fake.purged_bytes, 500000, 600000);
    assert_int_equal(gb_purge_wait(fake.now_ms), UINT32_MAX);
    assert_int_equal(glebe_live.stats.purged_bytes, fake.purged_bytes);
    assert_int_equal(glebe_live.stats.purges, fake.calls[GB_FAKE_PURGE]);
    assert_true(fixture_zero(glebe_calloc(1, 500000), 500000));
    fixture_check();
}

static void test_the_option_sets_the_delay(void **state)
{
    (void)state;
    assert_int_equal(glebe_option("purge_ms", "40"), 0);
    void *p = glebe_malloc(500000);
    glebe_free(p);
    assert_int_equal(gb_purge_wait(fake.now_ms), 40);
}

static void test_the_clock_may_wrap(void **state)
{
    (void)state;
    fake.now_ms = UINT32_MAX - 100;
    gb_store(&gb_the.now_ms, fake.now_ms);
    glebe_free(glebe_malloc(500000));
    fake.now_ms += 200;
    purge_now();
    assert_int_equal(fake.purged_bytes, 0);
    fake.now_ms += 400;
    purge_now();
    assert_true(fake.purged_bytes > 0);
}

/* In a chunk in use, memory in constant use stays, and the rest is purged. */
static void test_busy_chunk(void **state)
{
    (void)state;
    unsigned char *left = glebe_malloc(100000), *busy = glebe_malloc(200000);
    memset(left, 1, 100000);
    memset(busy, 1, 200000);
    glebe_free(left);
    for (int i = 0; i < 8; i++) {
        fake.now_ms += GB_PURGE_MS / 2;
        gb_store(&gb_the.now_ms, fake.now_ms);
        glebe_free(busy);
        purge_now();
        busy = glebe_malloc(200000);
        memset(busy, 1, 200000);
        fixture_check();
    }
    assert_in_range(fake.purged_bytes, 100000, 140000);
}

static void test_a_refused_purge_is_tried_again(void **state)
{
    (void)state;
    unsigned char *p = glebe_malloc(500000);
    memset(p, 0xdd, 500000);
    glebe_free(p);
    gb_fake_fail(1u << GB_FAKE_PURGE, 1, 1000);
    glebe_trim(NULL);
    fixture_check();
    p = glebe_calloc(1, 500000);
    assert_true(fixture_zero(p, 500000));
    glebe_free(p);
    gb_fake_fail(0, 0, 0);
    assert_true(glebe_trim(NULL) >= 500000);
    fixture_check();
}

static void test_ticks_purge(void **state)
{
    (void)state;
    void *p = glebe_malloc(500000);
    memset(p, 1, 500000);
    glebe_free(p);
    fake.now_ms += 2 * GB_PURGE_MS;
    for (int i = 0; i < 4000 && !fake.purged_bytes; i++)
        assert_non_null(glebe_malloc(1000));
    assert_true(fake.purged_bytes > 0);
}

static void test_memory_pressure(void **state)
{
    (void)state;
    for (int i = 0; i < 70; i++)
        assert_non_null(glebe_malloc(1000000));
    void *p = glebe_malloc(1000000);
    memset(p, 1, 1000000);
    glebe_free(p);
    fake.pressure_limit = 1000;
    fake.pressure_used = 840;
    fake.now_ms += 300;
    gb_tick_due(gb_self);
    assert_int_equal(fake.purged_bytes, 0);
    fake.pressure_used = 900; /* over 85 %: at once */
    fake.now_ms += 300;
    gb_tick_due(gb_self);
    assert_true(fake.purged_bytes >= 1000000);
}

static void test_large_os_pages(void **state)
{
    (void)state;
    fake.page_bytes = (size_t)64 << 10;
    void *blocks[300];
    for (int i = 0; i < 300; i++) {
        blocks[i] = glebe_malloc((size_t)20000 + (size_t)i * 300);
        memset(blocks[i], 1, (size_t)20000 + (size_t)i * 300);
    }
    for (int i = 0; i < 300; i++)
        if (i % 7)
            glebe_free(blocks[i]);
    assert_true(glebe_trim(NULL) > 0); /* the fake host aborts if a piece is not whole pages */
    fixture_check();
    fixture_balance();
    for (int i = 0; i < 300; i += 7)
        glebe_free(blocks[i]);
    glebe_free(glebe_malloc(3000000));
    fixture_release();
}

static void test_collect_returns_what_it_gave(void **state)
{
    (void)state;
    assert_int_equal(glebe_trim(NULL), 0); /* before there is a heap */
    void *p = glebe_malloc(2000);
    glebe_free(p);
    uint64_t before = fake.purged_bytes;
    size_t given = glebe_trim(NULL);
    assert_int_equal(given, fake.purged_bytes - before);
    assert_true(given >= GB_SLICE_BYTES);
    assert_int_equal(glebe_trim(NULL), 0);
    assert_int_equal(glebe_live.stats.used_bytes, 0);
}

/* ---- the option `purge` ---- */

/* A block that was purged lazily is free, dirty, and not purged again until it was used. */
static void lazily(size_t bytes, int count)
{
    fixture_start(1);
    assert_int_equal(glebe_option("purge", "free"), 0);
    unsigned char *blocks[64];
    void *other = glebe_malloc(bytes); /* the page or chunk stays in use */
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < count; i++) {
            blocks[i] = glebe_calloc(1, bytes);
            assert_true(fixture_zero(blocks[i], bytes));
            memset(blocks[i], 0xdd, bytes);
        }
        for (int i = 0; i < count; i++)
            glebe_free(blocks[i]);
        gb_heap_cool(gb_self);
        uint64_t before = fake.lazy_bytes, purged = glebe_live.stats.purged_bytes;
        for (int i = 0; i < 6; i++) {
            fake.now_ms += GB_PURGE_MS;
            purge_now();
            for (uint32_t k = 0; k < gb_the.arena.chunks; k++)
                gb_purge_note(gb_entry_at(k * GB_CHUNK_SLICES)); /* the purger visits again */
        }
        assert_in_range(fake.lazy_bytes - before, bytes * (size_t)count / 10 * 9,
            bytes * (size_t)(count + 1) + (bytes * (size_t)count) / 4 + 65536);
        assert_int_equal(glebe_live.stats.purged_bytes - purged, fake.lazy_bytes - before);
        assert_int_equal(fake.purged_bytes, 0);
        assert_int_equal(glebe_live.stats.huge_retained_bytes, 0);
        fixture_check();
        fixture_balance();
    }
    glebe_free(other);
    glebe_trim(NULL);
    fixture_check();
}

static void test_lazily(void **state)
{
    (void)state;
    lazily(8192, 24);
    lazily(60000, 8);
    lazily(200000, 5);
    if (!gb_the.reserved)
        return; /* 32 bits: whole chunks and huge blocks return their address space too, never lazily */
    lazily(1000000, 5);
    lazily(3000000, 1);
    lazily(9000000, 1);
}

static void test_nothing_is_due_after_it(void **state)
{
    (void)state;
    glebe_option("purge", "free");
    void *large = glebe_malloc(500000), *huge = glebe_malloc(5000000);
    glebe_free(large);
    glebe_free(huge);
    fake.now_ms += GB_PURGE_MS;
    purge_now();
    assert_true(fake.lazy_bytes >= (gb_the.reserved ? 5500000u : 500000u));
    assert_int_equal(gb_purge_wait(fake.now_ms), UINT32_MAX);
    assert_int_equal(gb_load(&gb_the.huge.idle.count), 0);
}

/* glebe_trim, limits and new peaks purge at once. */
static void test_at_once_where_asked_for(void **state)
{
    (void)state;
    glebe_option("purge", "free");
    void *large = glebe_malloc(500000), *huge = glebe_malloc(5000000);
    memset(large, 1, 500000);
    glebe_free(large);
    glebe_free(huge);
    assert_true(glebe_trim(NULL) >= 5500000);
    assert_true(fake.purged_bytes >= 5500000);
    assert_int_equal(fake.lazy_bytes, 0);
    assert_true(fixture_zero(glebe_calloc(1, 500000), 500000));
}

/* They also purge huge blocks that were purged lazily before: those may still be resident. */
static void test_at_once_after_lazily(void **state)
{
    (void)state;
    glebe_option("purge", "free");
    glebe_free(glebe_malloc(5000000));
    fake.now_ms += GB_PURGE_MS;
    purge_now();
    uint64_t purged = fake.purged_bytes;
    assert_true(fake.lazy_bytes >= (gb_the.reserved ? 5000000u : 0u));
    glebe_trim(NULL);
    assert_true(fake.purged_bytes - purged >= (gb_the.reserved ? 5000000u : 0u));
    fixture_check();
    assert_true(fixture_zero(glebe_calloc(1, 5000000), 5000000));
    assert_int_equal(glebe_trim(NULL), 0);
}

/* A quiet heap purges lazily too: the program did not ask for memory. */
static void test_a_quiet_heap(void **state)
{
    (void)state;
    void *blocks[3000];
    glebe_option("purge", "free");
    for (int i = 0; i < 3000; i++)
        blocks[i] = glebe_malloc(1000);
    for (int i = 0; i < 3000; i++)
        glebe_free(blocks[i]);
    fake.now_ms += GB_PURGE_MS;
    gb_tick_due(gb_self);
    assert_true(fake.lazy_bytes > 1000000);
    assert_int_equal(fake.purged_bytes, 0);
    fixture_check();
}

static void test_a_host_that_is_never_lazy(void **state)
{
    (void)state;
    fake.never_lazy = true;
    glebe_option("purge", "free");
    void *large = glebe_malloc(500000), *medium = glebe_malloc(60000), *huge = glebe_malloc(5000000);
    glebe_free(large);
    glebe_free(medium);
    glebe_free(huge);
    gb_heap_cool(gb_self);
    fake.now_ms += GB_PURGE_MS;
    purge_now();
    assert_true(fake.purged_bytes >= 5560000);
    assert_int_equal(gb_the.arena.dirty_slices, 0);
    fixture_check();
}

static void test_a_lazy_purge_may_be_refused(void **state)
{
    (void)state;
    glebe_option("purge", "free");
    void *large = glebe_malloc(500000), *huge = glebe_malloc(5000000);
    glebe_free(large);
    glebe_free(huge);
    gb_fake_fail(1u << GB_FAKE_PURGE, 1, 1000);
    fake.now_ms += GB_PURGE_MS;
    purge_now();
    assert_int_equal(fake.lazy_bytes, 0);
    assert_int_equal(glebe_live.stats.huge_retained_bytes,
        gb_the.reserved ? gb_round_up(5000000, GB_GRANULE_BYTES) : 0);
    assert_int_equal(gb_purge_wait(fake.now_ms), gb_the.reserved ? GB_PURGE_MS : UINT32_MAX); /* no retry at once */
    assert_int_equal(gb_the.arena.dirty_slices, gb_round_up(500000, GB_SLICE_BYTES) >> GB_SLICE_LOG2);
    gb_fake_fail(0, 0, 0);
    glebe_trim(NULL);
    fixture_check();
}

/* Retained memory would exceed the peak, and the host refuses to take it back (it is locked): retries are rare, not at
 * each request. */
static void test_a_host_that_refuses_is_not_asked_each_time(void **state)
{
    (void)state;
    enum { N = 400 };
    static void *blocks[N];
    for (int i = 0; i < N; i++)
        blocks[i] = glebe_malloc(70000);
    for (int i = 0; i < N; i += 2)
        glebe_free(blocks[i]);
    gb_fake_fail(1u << GB_FAKE_PURGE, 1, UINT64_MAX);
    for (int i = 0; i < N; i += 2)
        blocks[i] = glebe_malloc(140000); /* twice as long as the free runs */
    assert_in_range(fake.failed, 1, 30 * N / 2); /* in 200 runs at each time */
    gb_fake_fail(0, 0, 0);
    fixture_check();
    for (int i = 0; i < N; i++)
        glebe_free(blocks[i]);
}

/* Huge pages make memory resident that was never handed out. Purging it a part at a time is no refusal: the bound
 * stays. */
static void test_the_bound_stays_with_huge_pages(void **state)
{
    (void)state;
    enum { N = 200, SLICES = 50 }; /* two fit in a chunk, and 28 slices are never used */
    static void *blocks[N];
    for (int i = 0; i < N; i++)
        blocks[i] = glebe_malloc(SLICES * GB_SLICE_BYTES);
    for (int i = 0; i < N; i += 2) {
        glebe_free(blocks[i]);
        blocks[i] = i % 4 == 0 ? glebe_malloc((SLICES + 10) * GB_SLICE_BYTES) : NULL;
    }
    size_t peak = (size_t)glebe_live.stats.peak_used_bytes;
    assert_int_equal(fake.failed, 0);
    assert_in_range(glebe_live.stats.huge_page_bytes, 1, SIZE_MAX);
    size_t shares = peak / GB_KEPT_SHARE + peak / GB_KEPT_LARGE_SHARE; /* all blocks are large */
    assert_in_range(gb_the.kept.peak_bytes, peak, peak + shares + GB_KEPT_BYTES);
    fixture_check();
    for (int i = 0; i < N; i++)
        glebe_free(blocks[i]);
}

/* A chunk that was wholly purged holds nothing, huge pages or not: the next purge takes the oldest other chunk. */
static void test_what_went_back_does_not_go_twice(void **state)
{
    (void)state;
    enum { NUMBER = (GB_HUGE_PAGES_FROM >> GB_CHUNK_LOG2) + 2, BLOCKS = 2 * (NUMBER + 4) /* two fill a chunk */ };
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = glebe_malloc(GB_LARGE_MAX);
    for (uint32_t number = NUMBER; number < NUMBER + 2; number++) /* two chunks, wholly */
        for (int i = 0; i < BLOCKS; i++)
            if (gb_chunk_of(gb_slice_of(gb_page_entry(blocks[i]))) == gb_chunk_at(number))
                glebe_free(blocks[i]);
    assert_int_equal(gb_chunk_at(NUMBER)->huge_pages, 1);
    assert_int_equal(gb_the.arena.dirty_slices, 2 * GB_CHUNK_SLICES);
    gb_lock_take(&gb_the.lock);
    assert_int_equal(gb_purge_oldest(GB_CHUNK_BYTES), GB_CHUNK_BYTES);
    assert_true(gb_set_empty(gb_chunk_at(NUMBER)->dirty));
    assert_int_equal(gb_the.arena.dirty_slices, GB_CHUNK_SLICES);
    assert_int_equal(gb_purge_oldest(GB_CHUNK_BYTES), GB_CHUNK_BYTES);
    assert_int_equal(gb_the.arena.dirty_slices, 0);
    assert_int_equal(gb_purge_oldest(GB_CHUNK_BYTES), 0);
    gb_lock_drop(&gb_the.lock);
    fixture_check();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_after_the_delay),
        FIXTURE_TEST(test_the_option_sets_the_delay),
        FIXTURE_TEST(test_the_clock_may_wrap),
        FIXTURE_TEST(test_busy_chunk),
        FIXTURE_TEST(test_a_refused_purge_is_tried_again),
        FIXTURE_TEST(test_ticks_purge),
        FIXTURE_TEST(test_memory_pressure),
        FIXTURE_TEST(test_large_os_pages),
        FIXTURE_TEST(test_collect_returns_what_it_gave),
        FIXTURE_TEST(test_lazily),
        FIXTURE_TEST(test_nothing_is_due_after_it),
        FIXTURE_TEST(test_at_once_where_asked_for),
        FIXTURE_TEST(test_a_quiet_heap),
        FIXTURE_TEST(test_at_once_after_lazily),
        FIXTURE_TEST(test_a_host_that_is_never_lazy),
        FIXTURE_TEST(test_a_host_that_refuses_is_not_asked_each_time),
        FIXTURE_TEST(test_the_bound_stays_with_huge_pages),
        FIXTURE_TEST(test_what_went_back_does_not_go_twice),
        FIXTURE_TEST(test_a_lazy_purge_may_be_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
