/* Threads that sleep while others free their blocks: the purger takes that memory, without a step of the owner
 * thread. */
#include "fixture.h"

enum { SMALL = 200, MEDIUM = 5000, MANY = 1500, OWNER = 1 };
static void *blocks[MANY];

/* Thread OWNER takes the blocks; every seventh is a medium one. */
static void owner_takes(void)
{
    fixture_thread(OWNER);
    for (int i = 0; i < MANY; i++) {
        blocks[i] = glebe_malloc(i % 7 ? SMALL : MEDIUM);
        assert_non_null(blocks[i]);
        fixture_fill(blocks[i], SMALL, (uint64_t)i);
    }
    fixture_thread(0);
}

static void free_all(void)
{
    for (int i = 0; i < MANY; i++) {
        assert_true(fixture_filled(blocks[i], SMALL, (uint64_t)i));
        glebe_free(blocks[i]);
    }
    gb_remote_flush(gb_self);
}

static void main_begins(void)
{
    glebe_free(glebe_malloc(1));
}

/* Time passes, and main's slow events do what is due then. */
static void time_passes(uint32_t ms)
{
    fake.now_ms += ms;
    for (int i = 0; i < 50; i++)
        gb_tick_due(gb_self);
    fixture_check();
}

static size_t owned_bytes(void) { return gb_load(&fixture_selves[OWNER]->bytes); }

/* The current page of each class may have room that was never handed out, so the owner keeps it. */
enum { KEPT = 6 * GB_BIG_PAGE_SLICES << GB_SLICE_LOG2 };

static void test_memory_goes_while_its_owner_sleeps(void **state)
{
    (void)state;
    main_begins();
    owner_takes();
    size_t all = owned_bytes();
    free_all();
    fixture_check();
    assert_int_equal(owned_bytes(), all);
    time_passes(GB_PURGE_MS / 2);
    assert_int_equal(owned_bytes(), all); /* control: it is too early */
    uint64_t purged = fake.purged_bytes;
    time_passes(2 * GB_PURGE_MS);
    assert_in_range(owned_bytes(), 0, KEPT);
    assert_true(fake.purged_bytes - purged >= all - KEPT);
    for (int round = 0; round < 3; round++) { /* the owner wakes */
        owner_takes();
        fixture_check();
        free_all();
    }
    fixture_thread(0);
    fixture_release();
}

/* In a chunk that is in constant use, the purger takes the pages at its second look. */
static void test_a_busy_chunk_takes_two_looks(void **state)
{
    (void)state;
    main_begins();
    owner_takes();
    size_t all = owned_bytes();
    free_all();
    void *medium[2] = {glebe_malloc(MEDIUM), glebe_malloc(MEDIUM)};
    for (int look = 0; look < 3; look++) {
        fake.now_ms += GB_PURGE_MS + 1;
        gb_store(&gb_the.now_ms, fake.now_ms);
        glebe_free(medium[look % 2]);
        medium[look % 2] = glebe_malloc(MEDIUM);
        gb_heap_cool(gb_self);
        for (uint32_t chunk = 0; chunk < gb_the.arena.chunks; chunk++) /* each chunk had a free just now */
            gb_store(&gb_chunk_at(chunk)->touched_ms, fake.now_ms);
        gb_purge_due(fake.now_ms, false);
        fixture_check();
        if (look == 0)
            assert_int_equal(owned_bytes(), all);
    }
    assert_in_range(owned_bytes(), 0, KEPT);
    glebe_free(medium[0]);
    glebe_free(medium[1]);
    fixture_release();
}

/* Memory that no thread uses does not count against a limit. */
static void test_a_limit_does_not_count_them(void **state)
{
    (void)state;
    assert_int_equal(glebe_option("limit", "2000000"), 0);
    main_begins();
    owner_takes();
    assert_null(glebe_malloc(1600000)); /* control: they are in use */
    free_all();
    void *block = glebe_malloc(1600000);
    assert_non_null(block);
    fixture_check();
    glebe_free(block);
    fixture_release();
}

/* A block of a page that the purger took is freed a second time. */
static void test_double_frees_are_found(void **state)
{
    (void)state;
    main_begins();
    owner_takes();
    free_all();
    time_passes(2 * GB_PURGE_MS);
    fake.printed_bytes = 0;
    fake.printed[0] = 0;
    glebe_free(blocks[0]);
    assert_int_equal(glebe_live.stats.errors, 1);
    assert_non_null(strstr(fake.printed, "double free: the block of 5120 bytes here is free already"));
    glebe_free(blocks[1000]);
    gb_remote_flush(gb_self);
    assert_int_equal(glebe_live.stats.errors, 2);
    assert_non_null(strstr(fake.printed, "double free: the block of 208 bytes here is free already"));
    fixture_check();
    fixture_release();
}

static void test_the_owner_ends(void **state)
{
    (void)state;
    main_begins();
    owner_takes();
    free_all();
    time_passes(2 * GB_PURGE_MS);
    fixture_thread_end(OWNER);
    fixture_check();
    fixture_thread(2);
    main_begins(); /* reclaims the heap */
    fixture_thread(0);
    fixture_release();
}

static void test_their_heap_is_destroyed(void **state)
{
    (void)state;
    main_begins();
    glebe_heap *heap = glebe_heap_create(0);
    for (int i = 0; i < MANY; i++)
        blocks[i] = glebe_heap_malloc(heap, i % 7 ? SMALL : MEDIUM);
    for (int i = 0; i < MANY; i++)
        glebe_free(blocks[i]);
    size_t all = gb_load(&heap->bytes);
    time_passes(2 * GB_PURGE_MS);
    assert_in_range(gb_load(&heap->bytes), 0, all < KEPT ? all - 1 : KEPT);
    glebe_heap_destroy(heap);
    fixture_release();
}

/* The host refuses a purge while memory is locked: all counts as before. A later step purges it; glebe_trim does not
 * wait for that. */
static void test_a_host_that_refuses(void **state)
{
    (void)state;
    for (int trim = 0; trim < 2; trim++) {
        fixture_start(1);
        main_begins();
        owner_takes();
        size_t all = owned_bytes();
        free_all();
        gb_fake_fail(1u << GB_FAKE_PURGE, 1, UINT32_MAX);
        time_passes(2 * GB_PURGE_MS);
        glebe_trim(NULL);
        assert_int_equal(owned_bytes(), all);
        fixture_check();
        gb_fake_fail(0, 0, 0);
        if (trim)
            glebe_trim(NULL);
        else
            time_passes(GB_PURGE_MS); /* control: ticks do not retry all the time */
        assert_true(trim ? owned_bytes() <= KEPT : owned_bytes() == all);
        time_passes(20 * GB_PURGE_MS);
        assert_in_range(owned_bytes(), 0, KEPT);
        fixture_thread(OWNER);
        void *block = glebe_calloc(1, 100000);
        assert_true(fixture_zero(block, 100000));
        glebe_free(block);
        fixture_check();
        fixture_thread(0);
        fixture_release();
    }
}

/* The owner had thousands of pages. One request looks at some of them. */
static void test_the_owner_wakes_in_steps(void **state)
{
    enum { BLOCKS = 20000, BYTES = 2000 };
    (void)state;
    main_begins();
    void **many = glebe_malloc(BLOCKS * sizeof *many);
    fixture_thread(OWNER);
    for (int i = 0; i < BLOCKS; i++)
        many[i] = glebe_malloc(BYTES);
    fixture_thread(0);
    for (int i = 0; i < BLOCKS; i++)
        glebe_free(many[i]);
    gb_remote_flush(gb_self);
    fixture_thread(OWNER);
    size_t all = gb_load(&gb_self->bytes);
    void *block;
    do
        block = glebe_malloc(BYTES);
    while (!gb_self->inbox_taken.n && gb_load(&gb_self->inbox));
    assert_int_not_equal(gb_self->inbox_taken.n, 0);
    assert_true(gb_load(&gb_self->bytes) > all / 4);
    fixture_check();
    glebe_free(block);
    fixture_thread(0);
    glebe_free(many);
    fixture_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_memory_goes_while_its_owner_sleeps),
        FIXTURE_TEST(test_a_busy_chunk_takes_two_looks),
        FIXTURE_TEST(test_a_limit_does_not_count_them),
        FIXTURE_TEST(test_double_frees_are_found),
        FIXTURE_TEST(test_the_owner_ends),
        FIXTURE_TEST(test_their_heap_is_destroyed),
        FIXTURE_TEST(test_a_host_that_refuses),
        FIXTURE_TEST(test_the_owner_wakes_in_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
