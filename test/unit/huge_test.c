/* Huge blocks: their extents, growth in place, moves by page tables, and how much freed memory is kept for how long. */
#include "fixture.h"

#define MIB ((size_t)1 << 20)

static gb_extent *extent_of(const void *block)
{
    gb_extent *extent = gb_huge_find(block);
    assert_non_null(extent);
    return extent;
}

static size_t extent_bytes(const void *block)
{
    return (size_t)extent_of(block)->granules << GB_GRANULE_LOG2;
}

static void test_blocks_lie_side_by_side(void **state)
{
    (void)state;
    char *end = NULL;
    for (size_t kib = 1100; kib <= 65536; kib = kib * 3 / 2) {
        char *p = glebe_malloc(kib << 10);
        assert_true(end == NULL || p == end);
        assert_int_equal((uintptr_t)p % GB_GRANULE_BYTES, 0);
        assert_int_equal(glebe_usable_size(p), gb_round_up(kib << 10, gb_the.page_bytes));
        assert_int_equal(extent_bytes(p), gb_round_up(kib << 10, GB_GRANULE_BYTES));
        end = p + extent_bytes(p);
        fixture_fill(p, 4096, kib);
    }
    fixture_check();
    fixture_balance();
}

static void test_growth_where_it_stands(void **state)
{
    (void)state;
    unsigned char *p = glebe_malloc(3 * MIB), *first = p;
    fixture_fill(p, 3 * MIB, 7);
    for (size_t bytes = 3 * MIB; bytes <= 40 * MIB; bytes += MIB / 2) {
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

/* Blocks that grow in turn block each other once each; from then on each has as much room as its length. */
static void test_growth_in_turn(void **state)
{
    (void)state;
    if (sizeof(void *) != 8)
        return;
    enum { BLOCKS = 4 };
    unsigned char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = glebe_malloc(2 * MIB);
        fixture_fill(blocks[i], 2 * MIB, (uint64_t)i);
    }
    for (size_t bytes = 2 * MIB; bytes <= 32 * MIB; bytes += MIB / 4)
        for (int i = 0; i < BLOCKS; i++)
            blocks[i] = glebe_realloc(blocks[i], bytes);
    assert_true(fake.calls[GB_FAKE_MOVE] <= BLOCKS * 5);
    for (int i = 0; i < BLOCKS; i++) {
        assert_true(fixture_filled(blocks[i], 2 * MIB, (uint64_t)i));
        fixture_check();
        glebe_free(blocks[i]);
    }
    fixture_release();
}

static void test_move_copies_nothing(void **state)
{
    (void)state;
    if (sizeof(void *) != 8)
        return;
    unsigned char *p = glebe_malloc(5 * MIB), *behind = glebe_malloc(2 * MIB);
    fixture_fill(p, 5 * MIB, 3);
    unsigned char *q = glebe_realloc(p, 6 * MIB);
    assert_non_null(q);
    assert_ptr_not_equal(q, p);
    assert_int_equal(fake.moved_bytes, 5 * MIB);
    assert_true(fixture_filled(q, 5 * MIB, 3));
    assert_true(fixture_zero(p, 5 * MIB)); /* moved away, and still committed */
    fixture_check();
    assert_ptr_equal(glebe_calloc(5, MIB), p); /* where the next block finds it */
    glebe_free(q);
    glebe_free(p);
    glebe_free(behind);
    fixture_release();
}

/* Shorter blocks are copied to idle memory, which costs no page fault; their own memory becomes idle. */
static void test_short_blocks_are_copied(void **state)
{
    (void)state;
    void *keep = glebe_malloc(100 * MIB), *idle = glebe_malloc(6 * MIB), *between = glebe_malloc(2 * MIB);
    unsigned char *p = glebe_malloc(2 * MIB), *behind = glebe_malloc(2 * MIB);
    memset(idle, 1, 6 * MIB);
    glebe_free(idle);
    fixture_fill(p, 2 * MIB, 3);
    uint64_t commits = fake.calls[GB_FAKE_COMMIT];
    unsigned char *q = glebe_realloc(p, 3 * MIB);
    assert_ptr_not_equal(q, p);
    assert_int_equal(fake.calls[GB_FAKE_MOVE], 0);
    assert_true(fixture_filled(q, 2 * MIB, 3));
    assert_ptr_equal(q, idle);
    assert_int_equal(fake.calls[GB_FAKE_COMMIT], commits);
    fixture_check();
    glebe_free(q);
    glebe_free(keep);
    glebe_free(between);
    glebe_free(behind);
    fixture_release();
}

/* Each block whose pages were moved is a mapping: beyond a bound, bytes are copied instead. */
static void test_moves_are_bounded(void **state)
{
    (void)state;
    if (sizeof(void *) != 8)
        return;
    glebe_free(glebe_malloc(2 * MIB));
    gb_lock_take(&gb_the.lock);
    uint32_t moved = gb_the.huge.moved;
    gb_the.huge.moved = GB_MOVED_MOST;
    gb_lock_drop(&gb_the.lock);
    unsigned char *p = glebe_malloc(5 * MIB), *behind = glebe_malloc(2 * MIB);
    fixture_fill(p, 5 * MIB, 3);
    p = glebe_realloc(p, 6 * MIB);
    assert_int_equal(fake.calls[GB_FAKE_MOVE], 0);
    assert_true(fixture_filled(p, 5 * MIB, 3));
    gb_the.huge.moved = moved;
    glebe_free(p);
    glebe_free(behind);
    fixture_check();
    fixture_release();
}

/* Memory that blocks touched serves others of any size, one extent alone or several adjacent ones. */
static void test_touched_memory_serves_any_size(void **state)
{
    (void)state;
    fake.sparse = true; /* no huge pages */
    void *keep = glebe_malloc(64 * MIB); /* so that up to 4 MiB may be kept */
    char *a = glebe_malloc(2 * MIB), *b = glebe_malloc(2 * MIB), *behind = glebe_malloc(2 * MIB);
    memset(a, 1, 2 * MIB);
    memset(b, 1, 2 * MIB);
    glebe_free(a);
    glebe_free(b);
    assert_int_equal(glebe_live.stats.huge_retained_bytes, 4 * MIB);
    uint64_t commits = fake.calls[GB_FAKE_COMMIT], purges = fake.calls[GB_FAKE_PURGE];
    char *c = glebe_malloc(3 * MIB);
    assert_ptr_equal(c, a);
    glebe_free(c);
    char *d = glebe_malloc(MIB + 1), *e = glebe_malloc(MIB + 1);
    assert_ptr_equal(d, a);
    assert_true(e > d && e < behind);
    assert_int_equal(fake.calls[GB_FAKE_COMMIT], commits);
    assert_int_equal(fake.calls[GB_FAKE_PURGE], purges);
    fixture_check();
    glebe_free(behind); /* clean or idle memory behind it completes an extent that is too short */
    c = glebe_malloc(5 * MIB);
    assert_true(c > e && c < behind + 2 * MIB);
    glebe_free(c);
    glebe_free(d);
    glebe_free(e);
    glebe_free(keep);
    fixture_check();
    fixture_release();
}

/* Free extents merge: once everything is free there is one, as long as all of them. */
static void test_free_extents_become_one(void **state)
{
    (void)state;
    void *blocks[64];
    for (size_t i = 0; i < 64; i++)
        assert_non_null(
            blocks[i] = glebe_aligned_alloc(i % 3 == 2 ? 8 * MIB : 4096, MIB + (i * 7919 << 10) % (2 * MIB)));
    for (size_t i = 0; i < 64; i++) {
        glebe_free(blocks[i * 37 % 64]);
        fixture_check();
    }
    fake.now_ms += GB_PURGE_MS;
    gb_purge_due(fake.now_ms, true);
    fixture_check();
    size_t whole = (size_t)(gb_the.huge.granules_max - 1) << GB_GRANULE_LOG2;
    void *all = glebe_malloc(whole);
    assert_true(all != NULL || sizeof(void *) != 8);
    fixture_check();
    glebe_free(all);
}

/* If nothing is reserved the kernel merges adjacent commits. Each gap between them costs a mapping, so their number is
 * bounded. */
static void test_gaps_are_bounded(void **state)
{
    (void)state;
    if (sizeof(void *) != 8)
        return;
    fake.address_bytes = SIZE_MAX >> 24;
    glebe_free(glebe_malloc(2 * MIB));
    assert_false(gb_the.reserved || gb_the.limited);
    enum { BLOCKS = 2 * GB_AWAY_MOST };
    static void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        assert_non_null(blocks[i] = glebe_aligned_alloc((size_t)1 << 17, MIB + 65537));
        assert_true(gb_the.huge.sets[GB_EXTENT_AWAY - GB_EXTENT_IDLE].count <= GB_AWAY_MOST + 1);
    }
    fixture_check();
    for (int i = 0; i < BLOCKS; i += 2)
        glebe_free(blocks[i]);
    assert_true(gb_the.huge.sets[GB_EXTENT_AWAY - GB_EXTENT_IDLE].count <= GB_AWAY_MOST + 1);
    for (int i = 1; i < BLOCKS; i += 2)
        glebe_free(blocks[i]);
    fixture_check();
    fixture_release();
}

/* A limit that the program sets on itself: free memory returns its address space, and is used again when the limit is
 * gone. */
static void test_a_limit_that_comes_later(void **state)
{
    (void)state;
    if (sizeof(void *) != 8)
        return;
    fake.address_bytes = SIZE_MAX >> 24;
    void *p = glebe_malloc(8 * MIB), *behind = glebe_malloc(2 * MIB);
    memset(p, 1, 8 * MIB);
    glebe_free(p);
    size_t committed = fake.committed_bytes;
    gb_purge_due(fake.now_ms, true);
    assert_int_equal(fake.committed_bytes, committed);
    fake.address_bytes = 64 * MIB;
    gb_purge_due(fake.now_ms, true);
    assert_true(gb_the.limited);
    assert_int_equal(fake.committed_bytes, committed - 8 * MIB);
    fixture_check();
    fake.address_bytes = SIZE_MAX >> 24;
    assert_non_null(p = glebe_malloc(4 * MIB));
    assert_false(gb_the.limited);
    fixture_check();
    glebe_free(p);
    glebe_free(behind);
    fixture_release();
}

/* If the host cannot move pages the bytes are copied; if it has no memory the block stays unchanged. */
static void test_move_that_fails(void **state)
{
    (void)state;
    if (sizeof(void *) != 8)
        return;
    unsigned char *p = glebe_malloc(5 * MIB), *behind = glebe_malloc(2 * MIB);
    fixture_fill(p, 5 * MIB, 3);
    gb_fake_fail(1u << GB_FAKE_MOVE, 1, 1);
    unsigned char *q = glebe_realloc(p, 6 * MIB);
    assert_non_null(q);
    assert_int_equal(fake.failed, 1);
    assert_true(fixture_filled(q, 5 * MIB, 3));
    fixture_check();
    gb_fake_fail(1u << GB_FAKE_COMMIT, 1, 1000);
    errno = 0;
    assert_null(glebe_realloc(q, 64 * MIB));
    assert_int_equal(errno, ENOMEM);
    assert_true(fixture_filled(q, 5 * MIB, 3));
    gb_fake_fail(0, 0, 0);
    glebe_free(q);
    glebe_free(behind);
    fixture_release();
}

static void test_freed_memory_is_found_again(void **state)
{
    (void)state;
    void *p = glebe_malloc(3 * MIB);
    fixture_fill(p, 3 * MIB, 1);
    glebe_free(p);
    assert_int_equal(glebe_live.stats.huge_retained_bytes, 3 * MIB);
    uint64_t commits = fake.calls[GB_FAKE_COMMIT];
    assert_ptr_equal(glebe_malloc(3 * MIB), p);
    assert_int_equal(fake.calls[GB_FAKE_COMMIT], commits);
    glebe_free(p);
    p = glebe_calloc(3, MIB); /* the same memory, which is not known to be zero */
    assert_true(fixture_zero(p, 3 * MIB));
    fixture_check();
}

/* A block that has grown beyond 256 KiB stays in place from then on; idle memory behind it serves its growth. */
static void test_a_grown_block(void **state)
{
    (void)state;
    fake.sparse = true; /* no huge pages */
    void *room = glebe_malloc(16 * MIB); /* so that up to 2 MiB may be kept */
    void *huge = glebe_malloc(2 * MIB), *behind;
    fixture_fill(huge, 2 * MIB, 1);
    glebe_free(huge);
    assert_int_equal(glebe_live.stats.huge_retained_bytes, 2 * MIB);
    unsigned char *p = glebe_malloc(200000);
    behind = glebe_malloc(200000);
    fixture_fill(p, 200000, 2);
    p = glebe_realloc(p, 300000);
    if (!gb_the.reserved) /* address space is limited */
        return;
    assert_ptr_equal(p, huge);
    assert_int_equal(glebe_usable_size(p), gb_round_up(300000, gb_the.page_bytes));
    assert_int_equal(glebe_live.stats.huge_retained_bytes, 2 * MIB - extent_bytes(p));
    assert_true(fixture_filled(p, 200000, 2));
    fixture_check();
    uint64_t commits = fake.calls[GB_FAKE_COMMIT];
    assert_ptr_equal(glebe_realloc(p, 900000), p);
    assert_ptr_equal(glebe_realloc(p, 1900000), p);
    assert_ptr_equal(glebe_realloc(p, 2 * MIB), p);
    assert_int_equal(glebe_live.stats.huge_retained_bytes, 0);
    assert_int_equal(fake.calls[GB_FAKE_COMMIT], commits);
    assert_true(fixture_filled(p, 200000, 2));
    fixture_check();
    p = glebe_realloc(p, 100000); /* and back to the blocks of its size */
    assert_non_null(gb_page_entry(p));
    assert_true(fixture_filled(p, 100000, 2));
    glebe_free(p);
    glebe_free(behind);
    glebe_free(room);
    fixture_check();
    fixture_release();
}

/* A large block takes the memory of a huge one that was freed, if no run of touched slices is long enough. */
static void test_large_blocks_in_idle_extents(void **state)
{
    (void)state;
    void *huge = glebe_malloc(2 * MIB), *behind = glebe_malloc(2 * MIB);
    glebe_free(huge);
    gb_heap_cool(gb_self);
    uint64_t touched = gb_the.arena.dirty_slices;
    assert_int_equal(glebe_live.stats.huge_retained_bytes, 2 * MIB);
    void *run = glebe_malloc(200000), *in_extent = glebe_malloc(700000), *other = glebe_malloc(700000);
    assert_non_null(gb_page_entry(run)); /* too short */
    assert_ptr_equal(in_extent, huge);
    assert_int_equal(glebe_usable_size(in_extent), gb_round_up(700000, gb_the.page_bytes));
    assert_null(gb_page_entry(other));
    assert_true(glebe_live.stats.huge_retained_bytes < 2 * MIB - 2 * 700000);
    assert_true(gb_the.arena.dirty_slices <= touched);
    void *third = glebe_malloc(700000); /* none is long enough any more */
    assert_non_null(gb_page_entry(third));
    fixture_fill(in_extent, 700000, 1);
    in_extent = glebe_realloc(in_extent, 100000);
    assert_non_null(gb_page_entry(in_extent));
    assert_true(fixture_filled(in_extent, 100000, 1));
    glebe_free(third);
    gb_heap_cool(gb_self);
    third = glebe_malloc(700000); /* a run serves first */
    assert_non_null(gb_page_entry(third));
    unsigned char *zero = glebe_calloc(1, 600000);
    assert_null(gb_page_entry(zero));
    assert_true(fixture_zero(zero, 600000));
    fixture_check();
    void *all[] = {behind, run, in_extent, other, third, zero};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        glebe_free(all[i]);
    fixture_check();
    fixture_release();
}

/* A thread whose first call is realloc gets a heap first. */
static void test_a_block_grown_by_a_new_thread(void **state)
{
    (void)state;
    void *p = glebe_malloc(200000);
    fixture_fill(p, 200000, 1);
    fixture_thread(1);
    void *q = glebe_realloc(p, 300000);
    assert_true(fixture_filled(q, 200000, 1));
    assert_int_equal(gb_load(&gb_heap_none.bytes), 0);
    assert_int_equal(gb_heap_none.huge.first, 0);
    fixture_check();
    fixture_thread(0);
    glebe_free(q);
    fixture_check();
}

/* If the old and the new block together exceed a heap's limit, the block grows in place. */
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
    assert_true(heap->grown_bytes <= 2 * MIB); /* a refused request is no growth */
    fixture_check();
    glebe_heap_destroy(heap);
    fixture_release();
}

/* The rest of an idle extent keeps its idle time, and memory freed next to it does not restart that time. */
static void test_what_is_left_goes_in_time(void **state)
{
    (void)state;
    void *p = glebe_malloc(4 * MIB), *behind = glebe_malloc(2 * MIB);
    memset(p, 1, 4 * MIB);
    glebe_free(p);
    for (int i = 0; i < 4; i++) {
        fake.now_ms += GB_PURGE_MS / 4;
        void *q = glebe_malloc(MIB + 4096);
        assert_ptr_equal(q, p);
        glebe_free(q);
        fixture_check();
    }
    assert_int_equal(gb_purge_due(fake.now_ms, false), 4 * MIB);
    fixture_check();
    glebe_free(behind);
}

/* Memory behind a block that another block touched is purged in time, and the block keeps its bytes. */
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
    assert_int_equal(glebe_live.stats.huge_retained_bytes, 0);
    fixture_check();
    assert_true(fixture_filled(p, 3 * MIB, 2));
    assert_ptr_equal(glebe_realloc(p, 4 * MIB), p);
    assert_true(fixture_zero((char *)p + 3 * MIB, MIB));
    glebe_free(p);
    fixture_check();
}

/* Locked: shrinks by as much as requested, in whole granules, longest waiting first. */
static void test_shrinking_idle_memory(void **state)
{
    (void)state;
    void *first = glebe_malloc(2 * MIB), *between = glebe_malloc(2 * MIB), *second = glebe_malloc(2 * MIB);
    memset(first, 1, 2 * MIB);
    memset(second, 2, 2 * MIB);
    glebe_free(first);
    fake.now_ms++;
    glebe_free(second);
    gb_lock_take(&gb_the.lock);
    assert_int_equal(gb_extents_shrink(MIB / 2), MIB / 2);
    assert_int_equal(gb_the.extents[gb_the.huge.idle.ends.first].granules, 3 * MIB / 2 >> GB_GRANULE_LOG2);
    assert_ptr_equal((void *)gb_extent_start(gb_the.extents + gb_the.huge.idle.ends.first), first);
    assert_int_equal(gb_extents_shrink(8 * MIB), 7 * MIB / 2);
    gb_lock_drop(&gb_the.lock);
    assert_int_equal(glebe_live.stats.huge_retained_bytes, 0);
    fixture_check();
    glebe_free(between);
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
    assert_int_equal(glebe_live.stats.huge_retained_bytes, 0);
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
        assert_true(glebe_live.stats.huge_retained_bytes <= 16 * MIB + glebe_live.stats.peak_used_bytes / 4);
    }
    assert_int_equal(glebe_live.stats.huge_bytes, 0);
    fixture_check();
    fixture_release();
}

/* After a purge that the host refused (locked memory) the memory must not count as zero. */
static void test_refused_purge_is_not_zero(void **state)
{
    (void)state;
    unsigned char *p = glebe_malloc(8 * MIB);
    memset(p, 0xee, 8 * MIB);
    glebe_free(p);
    gb_fake_fail(1u << GB_FAKE_PURGE, 1, 1000);
    unsigned char *q = glebe_malloc(5 * MIB); /* would purge the last 3 MiB */
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
    assert_ptr_equal(glebe_realloc(q, 5 * MIB), q); /* and by moving away */
    void *behind = glebe_malloc(3 * MIB);
    unsigned char *moved = glebe_realloc(q, 9 * MIB);
    assert_non_null(moved);
    unsigned char *again = glebe_calloc(8, MIB);
    assert_true(fixture_zero(again, 8 * MIB));
    fixture_check();
    gb_fake_fail(0, 0, 0);
    glebe_free(moved);
    glebe_free(again);
    glebe_free(behind);
    fixture_release();
}

/* Shrinking makes the cut off part idle memory. */
static void test_shrinking_gives_back(void **state)
{
    (void)state;
    unsigned char *p = glebe_malloc(12 * MIB);
    memset(p, 1, 12 * MIB);
    assert_ptr_equal(glebe_realloc(p, 2 * MIB), p);
    assert_int_equal(glebe_live.stats.huge_retained_bytes, 10 * MIB);
    assert_int_equal(gb_purge_due(fake.now_ms, true), 10 * MIB);
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
    const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 4096, GB_MAX_BYTES + 1, GB_MAX_BYTES, GB_MAX_BYTES - 1,
        GB_MAX_BYTES / 2, GB_MAX_BYTES / 2 - 1000};
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

enum { SPAN = GB_CHUNK_BYTES >> GB_GRANULE_LOG2, FILLED = 80, BLOCK = 1500 << 10 };

static void fill_spans(void **blocks)
{
    fake.memory_bytes = (size_t)1 << 30;
    for (int i = 0; i < FILLED; i++) {
        assert_non_null(blocks[i] = glebe_malloc(BLOCK));
        fixture_check();
    }
}

/* From 16 MiB on spans ask for huge pages if memory is dense, except samples. Then space is committed by whole
 * spans. */
static void test_dense_memory_asks_for_huge_pages(void **state)
{
    (void)state;
    if (sizeof(void *) != 8) /* address space is limited: no span is committed ahead */
        return;
    static void *blocks[FILLED];
    fill_spans(blocks);
    uint32_t spans = gb_load(&gb_the.huge.top) / SPAN, huge = 0;
    assert_int_equal(gb_load(&gb_the.huge.top) % SPAN, 0);
    assert_in_range(spans, 58, 64);
    for (uint32_t i = 0; i < spans; i++) {
        bool sample = i < 8 || i % 16 == 14;
        if (i > 10) /* the first ones may have been committed before */
            assert_int_equal(gb_the.spans.states[i], sample ? GB_SPAN_NONE : GB_SPAN_HUGE);
        huge += gb_the.spans.states[i] == GB_SPAN_HUGE;
    }
    assert_int_equal(huge, gb_the.spans.huge);
    assert_int_equal(huge * GB_CHUNK_BYTES, fake.huge_bytes);
    assert_int_equal(glebe_live.stats.huge_page_bytes, fake.huge_bytes);
    assert_in_range(fake.huge_looks, huge / 8, huge / 8 + 1);
    const gb_extent *last = extent_of(blocks[FILLED - 1]), *behind = last + last->granules;
    if (behind < gb_the.extents + gb_load(&gb_the.huge.top))
        assert_int_equal(behind->state, GB_EXTENT_IDLE); /* the huge page that the block ends in is resident */
    for (int i = 0; i < FILLED; i++)
        glebe_free(blocks[i]);
    fixture_release();
}

static void test_sparse_memory_asks_for_none(void **state)
{
    static void *blocks[FILLED];
    for (int why = 0; why < 3; why++) {
        if (why)
            fixture_setup(state);
        fake.sparse = why == 0;
        fake.huge_slow = why == 2;
        assert_int_equal(glebe_option("huge_pages", why == 1 ? "0" : "1"), 0);
        fill_spans(blocks);
        assert_in_range(fake.huge_bytes, 0, why == 2 ? 6 * GB_CHUNK_BYTES : 0); /* slow: 1 of 2, 3, 5, 9 ... */
        if (why < 2) {
            const gb_extent *last = extent_of(blocks[FILLED - 1]);
            assert_int_equal(last - gb_the.extents + last->granules, gb_load(&gb_the.huge.top));
        }
        for (int i = 0; i < FILLED; i++)
            glebe_free(blocks[i]);
        fixture_check();
    }
}

/* A huge page of which a quarter was purged asks for small pages, until all of it is purged. */
static void test_parts_of_huge_pages(void **state)
{
    (void)state;
    if (sizeof(void *) != 8) /* address space is limited: no span is committed ahead */
        return;
    static void *blocks[FILLED];
    fill_spans(blocks);
    uint32_t huge = gb_the.spans.huge;
    assert_int_equal(gb_the.spans.small, 0);
    for (int i = 40; i < 60; i += 4)
        glebe_free(blocks[i]);
    fixture_check();
    assert_int_equal(gb_the.spans.huge, huge);
    glebe_trim(NULL);
    fixture_check();
    assert_int_equal(glebe_live.stats.huge_retained_bytes, 0);
    assert_in_range(gb_the.spans.small, 5, 10);
    assert_int_equal(gb_the.spans.huge + gb_the.spans.small, huge);
    assert_int_equal(glebe_live.stats.huge_page_bytes, gb_the.spans.huge * GB_CHUNK_BYTES);
    for (int i = 0; i < FILLED; i++)
        if (i < 40 || i >= 60 || i % 4)
            glebe_free(blocks[i]);
    glebe_trim(NULL);
    fixture_check();
    fixture_balance();
}

/* Whole huge pages are purged after purge_ms, parts of them after four times as long. */
static void test_parts_of_huge_pages_wait(void **state)
{
    (void)state;
    if (sizeof(void *) != 8) /* address space is limited: no span is committed ahead */
        return;
    static void *blocks[FILLED];
    fill_spans(blocks);
    for (int i = 40; i < 43; i++) /* 4.4 MiB: one span is in it, or two */
        glebe_free(blocks[i]);
    size_t idle = (size_t)glebe_live.stats.huge_retained_bytes;
    assert_in_range(idle, 3 * (size_t)BLOCK, 5 * MIB + GB_CHUNK_BYTES);
    uint32_t huge = gb_the.spans.huge;
    for (int i = 1; i <= 5; i++) {
        fake.now_ms += GB_PURGE_MS + 1;
        gb_purge_due(fake.now_ms, false);
        fixture_check();
        if (i < 4) {
            assert_in_range(glebe_live.stats.huge_retained_bytes, 1, idle - GB_CHUNK_BYTES);
            assert_int_equal(gb_the.spans.huge, huge);
        }
    }
    assert_int_equal(glebe_live.stats.huge_retained_bytes, 0);
    for (int i = 0; i < FILLED; i++)
        if (i < 40 || i >= 43)
            glebe_free(blocks[i]);
    fixture_balance();
}

static void test_addresses_that_are_no_block(void **state)
{
    (void)state;
    unsigned char *p = glebe_malloc(20 * MIB);
    assert_null(gb_huge_find(p + 1));
    assert_null(gb_huge_find(p + 4 * MIB));
    assert_ptr_equal(gb_extent_of(p + 4 * MIB), extent_of(p));
    assert_ptr_equal(gb_extent_of(p + 20 * MIB - 1), extent_of(p));
    assert_null(gb_extent_of((void *)(gb_the.extents_base - 1)));
    assert_null(gb_extent_of(p + extent_bytes(p)));
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
        FIXTURE_TEST(test_blocks_lie_side_by_side),
        FIXTURE_TEST(test_growth_where_it_stands),
        FIXTURE_TEST(test_growth_in_turn),
        FIXTURE_TEST(test_move_copies_nothing),
        FIXTURE_TEST(test_short_blocks_are_copied),
        FIXTURE_TEST(test_moves_are_bounded),
        FIXTURE_TEST(test_touched_memory_serves_any_size),
        FIXTURE_TEST(test_free_extents_become_one),
        FIXTURE_TEST(test_gaps_are_bounded),
        FIXTURE_TEST(test_a_limit_that_comes_later),
        FIXTURE_TEST(test_move_that_fails),
        FIXTURE_TEST(test_freed_memory_is_found_again),
        FIXTURE_TEST(test_a_grown_block),
        FIXTURE_TEST(test_large_blocks_in_idle_extents),
        FIXTURE_TEST(test_a_block_grown_by_a_new_thread),
        FIXTURE_TEST(test_a_block_that_grows_below_a_limit),
        FIXTURE_TEST(test_what_is_left_goes_in_time),
        FIXTURE_TEST(test_idle_ends_are_purged_in_time),
        FIXTURE_TEST(test_shrinking_idle_memory),
        FIXTURE_TEST(test_cache_is_purged_in_time),
        FIXTURE_TEST(test_cache_is_bounded),
        FIXTURE_TEST(test_refused_purge_is_not_zero),
        FIXTURE_TEST(test_shrinking_gives_back),
        FIXTURE_TEST(test_alignment),
        FIXTURE_TEST(test_enormous_sizes),
        FIXTURE_TEST(test_dense_memory_asks_for_huge_pages),
        FIXTURE_TEST(test_sparse_memory_asks_for_none),
        FIXTURE_TEST(test_parts_of_huge_pages),
        FIXTURE_TEST(test_parts_of_huge_pages_wait),
        FIXTURE_TEST(test_addresses_that_are_no_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
