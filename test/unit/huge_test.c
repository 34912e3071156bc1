/* Huge blocks: slots, growth where they stand, moves by page tables, what is kept of freed ones and for how long. */
#include "fixture.h"

#define MIB ((size_t)1 << 20)

static gb_slot *slot_of(const void *block)
{
    gb_slot *slot = gb_huge_find(block);
    assert_non_null(slot);
    return slot;
}

static void test_slots_have_room_to_grow(void **state)
{
    (void)state;
    for (size_t mib = 2; mib <= 64; mib = mib * 3 / 2) {
        void *p = glebe_malloc(mib * MIB);
        gb_slot *slot = slot_of(p);
        size_t room = (size_t)1 << slot->log2;
        assert_true(room >= GB_GRANULE_BYTES && room >= mib * MIB);
        if (sizeof(void *) == 8)
            assert_true(room == GB_GRANULE_BYTES || (room >= 2 * mib * MIB && room < 4 * mib * MIB));
        assert_int_equal((uintptr_t)p % room, 0);
        assert_int_equal(glebe_usable_size(p), mib * MIB);
        fixture_fill(p, 4096, mib);
    }
    fixture_check();
    fixture_balance();
}

static void test_growth_stays_in_the_slot(void **state)
{
    (void)state;
    unsigned char *p = glebe_malloc(3 * MIB), *first = p;
    size_t room = (size_t)1 << slot_of(p)->log2;
    fixture_fill(p, 3 * MIB, 7);
    for (size_t bytes = 3 * MIB; bytes <= room; bytes += MIB / 2) {
        p = glebe_realloc(p, bytes);
        assert_ptr_equal(p, first);
        p[bytes - 1] = 9;
    }
    assert_true(fixture_filled(p, 3 * MIB - 1, 7));
    assert_int_equal(fake.moved_bytes, 0);
    fixture_check();
    glebe_free(p);
    fixture_release();
}

static void test_move_beyond_the_slot_copies_nothing(void **state)
{
    (void)state;
    if (sizeof(void *) != 8)
        return;
    unsigned char *p = glebe_malloc(2 * MIB);
    size_t room = (size_t)1 << slot_of(p)->log2;
    fixture_fill(p, 2 * MIB, 3);
    unsigned char *q = glebe_realloc(p, room + 4096);
    assert_non_null(q);
    assert_ptr_not_equal(q, p);
    assert_int_equal(fake.moved_bytes, 2 * MIB);
    assert_true(fixture_filled(q, 2 * MIB, 3));
    assert_true(fixture_zero(p, 2 * MIB)); /* moved away, and committed still */
    fixture_check();
    glebe_free(q);
    fixture_release();
}

/* Where the host cannot move pages the bytes are copied, and where it has no memory the block stays as it was. */
static void test_move_that_fails(void **state)
{
    (void)state;
    if (sizeof(void *) != 8)
        return;
    unsigned char *p = glebe_malloc(2 * MIB);
    size_t room = (size_t)1 << slot_of(p)->log2;
    fixture_fill(p, 2 * MIB, 3);
    gb_fake_fail(1u << GB_FAKE_MOVE, 1, 1);
    unsigned char *q = glebe_realloc(p, room + 4096);
    assert_non_null(q);
    assert_int_equal(fake.failed, 1);
    assert_true(fixture_filled(q, 2 * MIB, 3));
    fixture_check();
    gb_fake_fail(1u << GB_FAKE_COMMIT, 1, 1000);
    errno = 0;
    assert_null(glebe_realloc(q, 4 * room));
    assert_int_equal(errno, ENOMEM);
    assert_true(fixture_filled(q, 2 * MIB, 3));
    gb_fake_fail(0, 0, 0);
    glebe_free(q);
    fixture_release();
}

static void test_freed_slot_is_found_again(void **state)
{
    (void)state;
    void *p = glebe_malloc(3 * MIB);
    fixture_fill(p, 3 * MIB, 1);
    glebe_free(p);
    assert_int_equal(glebe_live.stats.huge_cached_bytes, 3 * MIB);
    uint64_t commits = fake.calls[GB_FAKE_COMMIT];
    assert_ptr_equal(glebe_malloc(3 * MIB), p);
    assert_int_equal(fake.calls[GB_FAKE_COMMIT], commits);
    glebe_free(p);
    p = glebe_calloc(3, MIB); /* the same memory, which is known not to be zero */
    assert_true(fixture_zero(p, 3 * MIB));
    fixture_check();
}

/* A block that has grown beyond 256 KiB stays where it is from then on; what its slot held before serves it as it grows. */
static void test_a_grown_block(void **state)
{
    (void)state;
    void *room = glebe_malloc(16 * MIB); /* so that what is kept may come to 2 MiB */
    void *huge = glebe_malloc(2 * MIB), *behind;
    fixture_fill(huge, 2 * MIB, 1);
    glebe_free(huge);
    assert_int_equal(glebe_live.stats.huge_cached_bytes, 2 * MIB);
    unsigned char *p = glebe_malloc(200000);
    behind = glebe_malloc(200000);
    fixture_fill(p, 200000, 2);
    p = glebe_realloc(p, 300000);
    if (!gb_the.reserved) /* address space is dear */
        return;
    assert_ptr_equal(p, huge);
    assert_int_equal(glebe_usable_size(p), gb_round_up(300000, gb_the.page_bytes));
    assert_int_equal(glebe_live.stats.huge_cached_bytes, 2 * MIB - glebe_usable_size(p));
    assert_true(fixture_filled(p, 200000, 2));
    fixture_check();
    uint64_t commits = fake.calls[GB_FAKE_COMMIT];
    assert_ptr_equal(glebe_realloc(p, 900000), p);
    assert_ptr_equal(glebe_realloc(p, 1900000), p);
    assert_ptr_equal(glebe_realloc(p, 2 * MIB), p);
    assert_int_equal(glebe_live.stats.huge_cached_bytes, 0);
    assert_int_equal(fake.calls[GB_FAKE_COMMIT], commits);
    assert_true(fixture_filled(p, 200000, 2));
    fixture_check();
    p = glebe_realloc(p, 100000); /* and back to where blocks of its size are */
    assert_non_null(gb_page_entry(p));
    assert_true(fixture_filled(p, 100000, 2));
    glebe_free(p);
    glebe_free(behind);
    glebe_free(room);
    fixture_check();
    fixture_release();
}

/* A thread whose first call it is gets a heap first. */
static void test_a_block_grown_by_a_new_thread(void **state)
{
    (void)state;
    void *p = glebe_malloc(200000);
    fixture_fill(p, 200000, 1);
    fixture_thread(1);
    void *q = glebe_realloc(p, 300000);
    assert_true(fixture_filled(q, 200000, 1));
    assert_int_equal(gb_load(&gb_heap_none.bytes), 0);
    assert_int_equal(gb_heap_none.huge, 0);
    fixture_check();
    fixture_thread(0);
    glebe_free(q);
    fixture_check();
}

/* Where old and new block together pass a heap's limit it grows where it is. */
static void test_a_block_that_grows_below_a_limit(void **state)
{
    (void)state;
    glebe_heap *heap = glebe_heap_create(MIB);
    char *p = glebe_heap_malloc(heap, 500 << 10);
    fixture_fill(p, 500 << 10, 1);
    assert_ptr_equal(glebe_heap_realloc(heap, p, 700 << 10), p);
    assert_ptr_equal(glebe_heap_realloc_sized(heap, p, 700 << 10, 900 << 10), p);
    assert_true(fixture_filled(p, 500 << 10, 1));
    assert_null(glebe_heap_malloc(heap, SIZE_MAX / 4));
    assert_true(heap->grown_bytes <= 2 * MIB); /* what was refused was no growth */
    fixture_check();
    glebe_heap_destroy(heap);
    fixture_release();
}

/* A block that takes little of what lies behind it, again and again, does not keep the rest. */
static void test_idle_ends_wait_no_longer_for_growth(void **state)
{
    (void)state;
    void *p = glebe_realloc(glebe_malloc(2 * MIB), 4 * MIB);
    memset(p, 1, 4 * MIB);
    glebe_free(p);
    assert_ptr_equal(glebe_malloc(2 * MIB), p);
    for (size_t step = 1; step <= 4; step++) {
        fake.now_ms += GB_PURGE_MS / 4;
        assert_ptr_equal(glebe_realloc(p, 2 * MIB + step * 65536), p);
    }
    assert_int_equal(gb_purge_due(fake.now_ms, false), 2 * MIB - 4 * 65536);
    fixture_check();
    glebe_free(p);
}

/* What lies behind a block that does not grow goes back in time, and the block keeps its bytes. */
static void test_idle_ends_are_purged_in_time(void **state)
{
    (void)state;
    void *p = glebe_malloc(4 * MIB);
    fixture_fill(p, 4 * MIB, 1);
    glebe_free(p);
    assert_ptr_equal(glebe_malloc(3 * MIB), p);
    fixture_fill(p, 3 * MIB, 2);
    assert_int_equal(gb_purge_wait(fake.now_ms), GB_PURGE_MS);
    fake.now_ms += GB_PURGE_MS;
    assert_int_equal(gb_purge_due(fake.now_ms, false), MIB);
    assert_int_equal(glebe_live.stats.huge_cached_bytes, 0);
    fixture_check();
    assert_true(fixture_filled(p, 3 * MIB, 2));
    assert_ptr_equal(glebe_realloc(p, 4 * MIB), p);
    assert_true(fixture_zero((char *)p + 3 * MIB, MIB));
    glebe_free(p);
    fixture_check();
}

/* Locked: as much as is asked for, to whole pages, from those that have waited longest. */
static void test_shrinking_idle_memory(void **state)
{
    (void)state;
    void *first = glebe_malloc(2 * MIB), *second = glebe_malloc(2 * MIB);
    memset(first, 1, 2 * MIB);
    memset(second, 2, 2 * MIB);
    gb_slot *slots[] = {slot_of(first), slot_of(second)};
    glebe_free(first);
    glebe_free(second);
    gb_lock_take(&gb_the.lock);
    assert_in_range(gb_huge_shrink(MIB / 2), MIB / 2 - gb_the.page_bytes, 2 * MIB);
    size_t left = gb_huge_idle(slots[0]);
    assert_true(left < 2 * MIB && (!gb_the.reserved || left == 3 * MIB / 2));
    assert_int_equal(gb_huge_idle(slots[1]), 2 * MIB);
    assert_int_equal(gb_huge_shrink(8 * MIB), left + 2 * MIB);
    gb_lock_drop(&gb_the.lock);
    assert_int_equal(glebe_live.stats.huge_cached_bytes, 0);
    fixture_check();
}

static void test_cache_is_purged_in_time(void **state)
{
    (void)state;
    void *p = glebe_malloc(3 * MIB);
    fixture_fill(p, 3 * MIB, 1);
    glebe_free(p);
    assert_int_equal(gb_purge_wait(fake.now_ms), GB_PURGE_MS);
    fake.now_ms += GB_PURGE_MS - 1;
    assert_int_equal(gb_purge_due(fake.now_ms, false), 0);
    fake.now_ms += 1;
    assert_int_equal(gb_purge_due(fake.now_ms, false), 3 * MIB);
    assert_int_equal(glebe_live.stats.huge_cached_bytes, 0);
    assert_int_equal(gb_purge_wait(fake.now_ms), UINT32_MAX);
    assert_int_equal(fake.purged_bytes >= 3 * MIB, 1);
    assert_true(fixture_zero(glebe_calloc(3, MIB), 3 * MIB));
    fixture_check();
}

static void test_cache_is_bounded(void **state)
{
    (void)state;
    void *blocks[20];
    for (int i = 0; i < 20; i++)
        blocks[i] = glebe_malloc(2 * MIB);
    for (int i = 0; i < 20; i++) {
        memset(blocks[i], 1, 2 * MIB);
        glebe_free(blocks[i]);
        assert_true(glebe_live.stats.huge_cached_bytes <= 16 * MIB + glebe_live.stats.peak_used_bytes / 4);
    }
    assert_int_equal(glebe_live.stats.huge_bytes, 0);
    fixture_check();
    fixture_release();
}

/* A purge that the host refuses (locked memory) must not make anybody believe in zeroes. */
static void test_refused_purge_is_not_zero(void **state)
{
    (void)state;
    unsigned char *p = glebe_malloc(8 * MIB);
    memset(p, 0xee, 8 * MIB);
    glebe_free(p);
    gb_fake_fail(1u << GB_FAKE_PURGE, 1, 1000);
    unsigned char *q = glebe_malloc(5 * MIB); /* would give the last 3 MiB back */
    assert_ptr_equal(p, q);
    glebe_free(q);
    q = glebe_calloc(8, MIB);
    assert_ptr_equal(p, q);
    assert_true(fixture_zero(q, 8 * MIB));
    memset(q, 0xee, 8 * MIB);
    assert_ptr_equal(glebe_realloc(q, 5 * MIB), q); /* the same by shrinking */
    assert_ptr_equal(glebe_realloc(q, 6 * MIB), q);
    glebe_free(q);
    q = glebe_calloc(8, MIB);
    assert_true(fixture_zero(q, 8 * MIB));
    memset(q, 0xee, 8 * MIB);
    size_t room = (size_t)1 << slot_of(q)->log2; /* and by moving away */
    assert_ptr_equal(glebe_realloc(q, 5 * MIB), q);
    unsigned char *moved = glebe_realloc(q, room + MIB);
    assert_non_null(moved);
    unsigned char *again = glebe_calloc(8, MIB);
    assert_true(fixture_zero(again, 8 * MIB));
    fixture_check();
    gb_fake_fail(0, 0, 0);
    glebe_free(moved);
    glebe_free(again);
    fixture_release();
}

static void test_shrinking_gives_back(void **state)
{
    (void)state;
    unsigned char *p = glebe_malloc(12 * MIB);
    memset(p, 1, 12 * MIB);
    uint64_t before = fake.purged_bytes;
    assert_ptr_equal(glebe_realloc(p, 2 * MIB), p);
    assert_true(fake.purged_bytes - before >= 10 * MIB);
    assert_int_equal(glebe_usable_size(p), 2 * MIB);
    assert_ptr_equal(glebe_realloc(p, 12 * MIB), p);
    assert_true(fixture_zero(p + 2 * MIB, 10 * MIB));
    assert_int_equal(p[2 * MIB - 1], 1);
    p = glebe_realloc(p, 1000);
    assert_int_equal(p[999], 1);
    assert_int_equal(glebe_live.stats.huge_bytes, 0);
    fixture_check();
}

static void test_alignment(void **state)
{
    (void)state;
    for (size_t alignment = 1; alignment <= 64 * MIB; alignment *= 2) {
        void *p = glebe_aligned_alloc(alignment, MIB + MIB / 2);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % alignment, 0);
        fixture_check();
        glebe_free(p);
    }
    errno = 0;
    assert_null(glebe_aligned_alloc((size_t)1 << (sizeof(size_t) * 8 - 1), 1));
    assert_int_equal(errno, ENOMEM);
    fixture_release();
}

static void test_enormous_sizes(void **state)
{
    (void)state;
    const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 4096, GB_MAX_BYTES + 1, GB_MAX_BYTES, GB_MAX_BYTES - 1, GB_MAX_BYTES / 2, GB_MAX_BYTES / 4 + 1};
    void *p = glebe_malloc(2 * MIB);
    uint64_t peak = glebe_live.stats.peak_used_bytes;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        errno = 0;
        assert_null(glebe_malloc(sizes[i]));
        assert_int_equal(errno, ENOMEM);
        assert_null(glebe_calloc(1, sizes[i]));
        assert_null(glebe_calloc(sizes[i], 2));
        assert_null(glebe_realloc(p, sizes[i]));
        assert_null(glebe_aligned_alloc(65536, sizes[i]));
        assert_null(glebe_aligned_alloc(MIB * 8, sizes[i]));
    }
    assert_int_equal(glebe_live.stats.peak_used_bytes, peak);
    fixture_check();
    glebe_free(p);
    fixture_release();
}

static void test_entries_between_slots(void **state)
{
    (void)state;
    unsigned char *p = glebe_malloc(20 * MIB);
    assert_null(gb_huge_find(p + 1));
    assert_null(gb_huge_find(p + 4 * MIB));
    assert_non_null(gb_huge_entry(p + 4 * MIB));
    assert_null(gb_huge_entry((void *)gb_the.slots_end));
    assert_null(gb_huge_entry((void *)(gb_load_relaxed(&gb_the.slots_low) - 1)));
    glebe_free(p + 4 * MIB);
    assert_int_equal(glebe_live.stats.errors, 1);
    glebe_free(p);
    glebe_free(p);
    assert_int_equal(glebe_live.stats.errors, 2);
    assert_non_null(strstr(fake.printed, "double free: "));
    fixture_check();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_slots_have_room_to_grow),
        FIXTURE_TEST(test_growth_stays_in_the_slot),
        FIXTURE_TEST(test_move_beyond_the_slot_copies_nothing),
        FIXTURE_TEST(test_move_that_fails),
        FIXTURE_TEST(test_freed_slot_is_found_again),
        FIXTURE_TEST(test_a_grown_block),
        FIXTURE_TEST(test_a_block_grown_by_a_new_thread),
        FIXTURE_TEST(test_a_block_that_grows_below_a_limit),
        FIXTURE_TEST(test_idle_ends_wait_no_longer_for_growth),
        FIXTURE_TEST(test_idle_ends_are_purged_in_time),
        FIXTURE_TEST(test_shrinking_idle_memory),
        FIXTURE_TEST(test_cache_is_purged_in_time),
        FIXTURE_TEST(test_cache_is_bounded),
        FIXTURE_TEST(test_refused_purge_is_not_zero),
        FIXTURE_TEST(test_shrinking_gives_back),
        FIXTURE_TEST(test_alignment),
        FIXTURE_TEST(test_enormous_sizes),
        FIXTURE_TEST(test_entries_between_slots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
