/* Guarded blocks: each of the ways in which a block is allocated, resized and freed works with them; what touches their
 * guards, or them after they were freed, is reported; a slot that was freed waits for all that were freed before. */
#include "fixture.h"

#if GB_SAMPLES

enum { SLOTS = GB_GUARD_SLOTS, MOST = 4 * SLOTS };
static const uintptr_t here[] = {0x2001, 0x2002, 0x2003}, there[] = {0x3001, 0x3002};
static char *blocks[MOST];

/* From here on each block is a sample, and guarded if a slot is free. */
static void start(void)
{
    fake.stack = here;
    fake.stack_length = 3;
    assert_int_equal(glebe_option("guard", "1"), 0);
}

static char *guarded(size_t bytes)
{
    char *block = glebe_malloc(bytes);
    assert_true(gb_guard_place(block));
    assert_true(gb_guard_in_use(block));
    return block;
}

static gb_guard_sight sight_of(const void *address)
{
    gb_guard_sight sight;
    assert_true(gb_guard_seen(address, &sight));
    return sight;
}

static void expect_errors(uint64_t count)
{
    assert_int_equal(glebe_live.stats.errors, count);
    glebe_live.stats.errors = 0;
}

static void test_sizes(void **state)
{
    (void)state;
    start();
    static const size_t sizes[] = {1, 16, 17, 100, 128, 1000, 2048, 2049, 3000, 4000, 4096};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *block = guarded(sizes[i]);
        size_t bytes = glebe_usable_size(block);
        assert_true(bytes >= sizes[i] && bytes <= sizes[i] + sizes[i] / 8 + 16);
        assert_int_equal((uintptr_t)block % 16, 0);
        memset(block, 1, bytes);
        assert_int_equal(gb_block_start(block + bytes - 1), (uintptr_t)block);
        assert_true(glebe_heap_owns(NULL, block));
        glebe_free(block);
        assert_false(gb_guard_in_use(block));
    }
    assert_false(gb_guard_place(glebe_malloc(4097)));
    char *none = glebe_malloc(0), *zero = glebe_calloc(7, 10);
    assert_false(gb_guard_place(none));
    assert_true(gb_guard_place(zero));
    for (int i = 0; i < 70; i++)
        assert_int_equal(zero[i], 0);
    expect_errors(0);
    fixture_check();
}

static void test_aligned(void **state)
{
    (void)state;
    start();
    for (size_t alignment = 16; alignment <= 4096; alignment *= 2)
        for (size_t bytes = 1; bytes <= 4096; bytes = bytes * 3 + 1) {
            char *block = glebe_aligned_alloc(alignment, bytes);
            assert_int_equal((uintptr_t)block % alignment, 0);
            memset(block, 2, glebe_usable_size(block));
            glebe_free(block);
        }
    assert_int_equal((uintptr_t)glebe_aligned_alloc(8192, 100) % 8192, 0);
    expect_errors(0);
}

static void test_resized(void **state)
{
    (void)state;
    start();
    char *block = guarded(64);
    memset(block, 5, 64);
    for (size_t bytes = 80; bytes < 20000; bytes = bytes * 3 / 2) {
        block = glebe_realloc(block, bytes);
        for (int i = 0; i < 64; i++)
            assert_int_equal(block[i], 5);
    }
    assert_false(gb_guard_place(block));
    for (size_t bytes = 4000; bytes >= 64; bytes /= 2)
        block = glebe_realloc(block, bytes);
    assert_true(gb_guard_place(block));
    assert_int_equal(block[63], 5);
    assert_null(glebe_realloc(block, 0));
    expect_errors(0);
}

/* The pool is bounded; a freed slot is taken again after those that were freed before it. */
static void test_oldest_first(void **state)
{
    (void)state;
    start();
    for (int i = 0; i < SLOTS; i++)
        blocks[i] = guarded(64);
    assert_false(gb_guard_place(glebe_malloc(64)));
    static const int order[] = {7, 3, 60, 0, 12};
    for (int i = 0; i < 5; i++)
        glebe_free(blocks[order[i]]);
    for (int i = 0; i < 5; i++) {
        char *block = guarded(64);
        assert_int_equal((uintptr_t)block / 4096, (uintptr_t)blocks[order[i]] / 4096);
    }
    expect_errors(0);
}

static void test_frees(void **state)
{
    (void)state;
    start();
    char *block = guarded(64), *other = guarded(64);
    fake.stack = there;
    fake.stack_length = 2;
    glebe_free(block);
    gb_guard_sight sight = sight_of(block);
    assert_true(sight.freed);
    assert_int_equal(sight.bytes, 64);
    assert_int_equal(sight.allocators_count, 3);
    assert_int_equal(sight.allocators[0], here[0]);
    assert_int_equal(sight.freers_count, 2);
    assert_int_equal(sight.freers[1], there[1]);
    expect_errors(0);
    glebe_free(block); /* twice */
    expect_errors(1);
    glebe_free(other + 16);
    expect_errors(1);
    assert_null(glebe_realloc(block, 100));
    expect_errors(1);
    assert_int_equal(glebe_usable_size(other + 1), 0);
    expect_errors(1);
    glebe_free((void *)(gb_the.guards.base + 100)); /* a guard */
    expect_errors(1);
    assert_true(gb_guard_in_use(other));
    glebe_free_sized(other, 1000);
    expect_errors(1);
    glebe_free_sized(other, 64);
    expect_errors(0);
}

/* Writes that meet no guard are found when the block is freed. */
static void test_rest_of_the_page(void **state)
{
    (void)state;
    start();
    for (int i = 0; i < 8; i++) {
        char *block = guarded(64);
        bool first = (uintptr_t)block % 4096 == 0;
        assert_int_equal(first, i % 4 == 3);
        block[first ? 64 : -1] = 1;
        glebe_free(block);
        expect_errors(1);
        assert_false(gb_guard_in_use(block));
    }
}

static void test_faults(void **state)
{
    (void)state;
    start();
    char *block = guarded(64), *last = guarded(4096);
    uintptr_t at = (uintptr_t)block, page = at & ~(uintptr_t)4095;
    assert_false(fake.fault((uintptr_t)blocks, 0x2001, "write"));
    expect_errors(0);
    assert_true(fake.fault(at + 64, 0x2001, "write"));
    expect_errors(1);
    *(char *)(at + 64) = 1; /* only counted: the access succeeds now */
    glebe_free(block);
    expect_errors(0);
    assert_true(fake.fault(at + 8, 0x2001, "read"));
    expect_errors(1);
    *(char *)(at + 8) = 1;
    assert_true(fake.fault((uintptr_t)last - 1, 0x2001, "read"));
    expect_errors(1);
    glebe_free(last);
    /* the guards are closed again when the slot is used again */
    for (int i = 0; i < SLOTS; i++)
        blocks[i] = guarded(64);
    assert_true(sight_of((void *)(page + 8)).bytes == 64);
    for (int i = 0; i < SLOTS; i++) {
        for (int k = 0; k < 64; k++)
            assert_int_equal(blocks[i][k], 0);
        assert_true(fake.fault((uintptr_t)blocks[i], 0x2001, "read")); /* it was given out meanwhile */
        glebe_free(blocks[i]);
    }
    expect_errors(0);
    for (int i = 0; i < 3; i++) { /* an opened page belongs to two slots */
        block = guarded(64);
        assert_true(fake.fault(((uintptr_t)block | 4095) + 1, 0x2001, "write"));
        glebe_free(block);
    }
    expect_errors(3);
    fixture_check();
}

/* A profile has guarded blocks too, and neither disturbs the other. */
static void test_with_a_profile(void **state)
{
    (void)state;
    start();
    assert_int_equal(glebe_profile_start(1), 0);
    assert_int_equal(glebe_profile_start(1), EBUSY);
    char *block = guarded(64);
    uintptr_t callers[GB_SAMPLE_FRAMES];
    assert_int_equal(gb_sample_callers(block, callers), 3);
    glebe_free(block);
    assert_int_equal(gb_sample_callers(block, callers), 0);
    block = guarded(64);
    glebe_profile_stop();
    assert_true(gb_the.sampler.live_bytes > 0);
    glebe_free(block);
    assert_int_equal(gb_the.sampler.live_bytes, 0);
    guarded(64);
    assert_int_equal(gb_the.sampler.taken, 2);
    assert_int_equal(glebe_option("guard", "0"), 0);
    assert_false(gb_guard_place(glebe_malloc(64)));
    assert_int_equal(glebe_profile_start(1), 0);
    assert_false(gb_guard_place(glebe_malloc(64)));
    expect_errors(0);
    fixture_check();
}

static void test_threads(void **state)
{
    (void)state;
    start();
    char *first = guarded(64);
    fixture_thread(1);
    char *second = guarded(3000);
    glebe_free(first);
    fixture_thread_end(1);
    fixture_thread(0);
    glebe_free(second);
    glebe_free(second);
    expect_errors(1);
    glebe_heap *heap = glebe_heap_create(0);
    assert_false(gb_guard_place(glebe_heap_malloc(heap, 64))); /* heaps are destroyed with all their blocks */
    assert_false(glebe_heap_owns(heap, guarded(64)));
    glebe_heap_destroy(heap);
    expect_errors(0);
}

/* A block in so many bytes, of all sizes together. */
static void test_rate(void **state)
{
    (void)state;
    enum { RATE = 64 << 10, ROUNDS = 400000, BYTES = 160 };
    fake.stack = here;
    fake.stack_length = 3;
    assert_int_equal(glebe_option("guard", "64K"), 0);
    int count = 0;
    for (int i = 0; i < ROUNDS; i++) {
        char *block = glebe_malloc(BYTES);
        count += gb_guard_place(block);
        glebe_free(block);
    }
    int expected = ROUNDS / (RATE / BYTES);
    assert_true(count > expected * 9 / 10 && count < expected * 11 / 10);
    expect_errors(0);
}

static void test_refused(void **state)
{
    (void)state;
    fake.guards_fail = true;
    assert_int_equal(glebe_option("guard", "1"), ENOMEM);
    assert_false(gb_guard_place(glebe_malloc(64)));
    assert_int_equal(glebe_option("guard", "x"), EINVAL);
    fake.guards_fail = false;
    start();
    fake.guards_fail = true; /* later: no block is guarded, and a free succeeds */
    char *block = glebe_malloc(64);
    assert_false(gb_guard_place(block));
    glebe_free(block);
    fixture_check();
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(test_sizes), FIXTURE_TEST(test_aligned),
        FIXTURE_TEST(test_resized), FIXTURE_TEST(test_oldest_first), FIXTURE_TEST(test_frees),
        FIXTURE_TEST(test_rest_of_the_page), FIXTURE_TEST(test_faults), FIXTURE_TEST(test_with_a_profile),
        FIXTURE_TEST(test_threads), FIXTURE_TEST(test_rate), FIXTURE_TEST(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) { return 0; }
#endif
