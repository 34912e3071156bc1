/* Common heaps: if there are many heaps, threads that allocate seldom share common heaps. Here two threads have heaps
 * of their own, and all further threads begin without one. */
#define FIXTURE_FEW_HEAPS 2
#include "fixture.h"

enum { KIB = 1 << 10, MIB = 1 << 20, OWNERS = 2, MANY = 40 };

static glebe_heap *common_at(int i)
{
    return gb_load(&gb_the.common[i].heap) ? gb_common_heap(&gb_the.common[i]) : NULL;
}

/* Threads 0 and 1 begin, and have heaps. From here on the test is thread 0. */
static void begin(void)
{
    fixture_no_requests();
    for (int t = OWNERS - 1; t >= 0; t--) {
        fixture_thread(t);
        glebe_free(glebe_malloc(1));
        assert_int_equal(gb_self->kind, GB_HEAP_THREAD);
    }
}

static size_t size_of(int i)
{
    static const size_t sizes[] = {1, 24, 100, 500, 1500, 2048, 3000, 20 * KIB, 64 * KIB, 200 * KIB, 2 * MIB};
    return sizes[(size_t)i % (sizeof sizes / sizeof *sizes)];
}

static void *blocks[FIXTURE_THREADS][MANY];

static void takes(int t)
{
    fixture_thread(t);
    for (int i = 0; i < MANY; i++) {
        blocks[t][i] = i % 3 ? glebe_malloc(size_of(i)) : glebe_calloc(1, size_of(i));
        assert_non_null(blocks[t][i]);
        assert_true(i % 3 || fixture_zero(blocks[t][i], size_of(i)));
        fixture_fill(blocks[t][i], size_of(i), (uint64_t)(t * MANY + i));
    }
}

/* Thread `t` frees the blocks of thread `of`. */
static void frees(int t, int of)
{
    fixture_thread(t);
    for (int i = 0; i < MANY; i++) {
        assert_true(fixture_filled(blocks[of][i], size_of(i), (uint64_t)(of * MANY + i)));
        glebe_free(blocks[of][i]);
    }
}

static void test_threads_share_one(void **state)
{
    (void)state;
    begin();
    for (int round = 0; round < 3; round++) {
        for (int t = OWNERS; t < FIXTURE_THREADS; t++) {
            takes(t);
            assert_ptr_equal(gb_self, &gb_heap_none);
        }
        fixture_check();
        assert_int_equal(glebe_live.stats.heaps, OWNERS + 1);
        assert_int_equal(common_at(0)->kind, GB_HEAP_COMMON);
        for (int t = OWNERS; t < FIXTURE_THREADS; t++) /* by its own thread, by another, by one with a heap */
            frees(t % 3 == 0 ? t : t % 3 == 1 ? OWNERS : 0, t);
        gb_remote_flush(fixture_selves[0]);
    }
    fixture_thread(OWNERS);
    char *block = glebe_aligned_alloc(4096, 5000);
    assert_int_equal((uintptr_t)block % 4096, 0);
    fixture_fill(block, 5000, 1);
    block = glebe_realloc(block, 300 * KIB);
    assert_true(fixture_filled(block, 5000, 1));
    glebe_free(block);
    assert_int_equal(glebe_live.stats.heaps, OWNERS + 1);
    assert_int_equal(glebe_live.stats.errors, 0);
    fixture_thread(0);
    fixture_release();
}

/* A thread that allocates often gets its own heap; the same number of requests in a longer time gets none. */
static void test_who_allocates_often(void **state)
{
    (void)state;
    begin();
    fixture_thread(OWNERS);
    for (int i = 0; i < 3 * GB_COMMON_REQUESTS; i++) {
        if (i % GB_COMMON_REQUESTS == 0)
            fake.now_ms += GB_COMMON_MS;
        glebe_free(glebe_malloc(40));
        assert_ptr_equal(gb_self, &gb_heap_none);
    }
    glebe_free(glebe_malloc(40));
    assert_int_equal(gb_self->kind, GB_HEAP_THREAD);
    fixture_thread(0);
    fixture_release();
}

/* If there is an abandoned heap, a thread reclaims it. */
static void test_abandoned_heaps_first(void **state)
{
    (void)state;
    begin();
    fixture_thread_end(1);
    fixture_thread(OWNERS);
    glebe_free(glebe_malloc(40));
    assert_int_equal(gb_self->kind, GB_HEAP_THREAD);
    assert_int_equal(glebe_live.stats.heaps, OWNERS);
    fixture_thread(0);
    fixture_release();
}

static void test_no_thread_waits_for_another(void **state)
{
    (void)state;
    begin();
    fixture_thread(OWNERS);
    void *first = glebe_malloc(40);
    gb_lock_take(&gb_the.common[0].lock); /* as if another thread used it */
    void *second = glebe_malloc(40);
    assert_ptr_equal(gb_page_heap(gb_page_head(gb_page_entry(first))), common_at(0));
    assert_ptr_equal(gb_page_heap(gb_page_head(gb_page_entry(second))), common_at(1));
    glebe_free(first);
    glebe_free(second);
    gb_lock_drop(&gb_the.common[0].lock);
    assert_null(common_at(2));
    assert_non_null(first = glebe_malloc(40));
    assert_ptr_equal(gb_page_heap(gb_page_head(gb_page_entry(first))), common_at(0));
    glebe_free(first);
    fixture_thread(0);
    fixture_release();
}

/* If no thread has entered the common heap for a while, another thread's ticks purge its retained memory. */
static void test_memory_goes_home(void **state)
{
    (void)state;
    begin();
    for (int t = OWNERS; t < FIXTURE_THREADS; t++)
        takes(t);
    for (int t = OWNERS; t < FIXTURE_THREADS; t++)
        frees(t, t);
    fixture_thread(0);
    size_t held = gb_load(&common_at(0)->bytes);
    assert_true(held > 8 * GB_SLICE_BYTES);
    for (int ms = 0; ms < GB_PURGE_MS / 2; ms++) {
        fake.now_ms++;
        gb_tick_due(gb_self);
    }
    assert_true(gb_load(&common_at(0)->bytes) > 0); /* control: it is too early */
    for (int ms = 0; ms < 3 * GB_PURGE_MS; ms += GB_COMMON_HEAPS) { /* the program ticks by a timer of 8 ms */
        fake.now_ms += GB_COMMON_HEAPS;
        gb_tick_due(gb_self);
    }
    fixture_check();
    assert_int_equal(gb_load(&common_at(0)->bytes), 0);
    takes(OWNERS); /* the common heap serves again */
    frees(OWNERS, OWNERS);
    fixture_thread(0);
    fixture_release();
}

static void test_fork_keeps_them(void **state)
{
    (void)state;
    begin();
    takes(OWNERS);
    fixture_thread(OWNERS + 1); /* a thread without a heap forks */
    gb_fork_prepare();
    glebe_free(glebe_malloc(40)); /* as another fork handler does */
    gb_fork_child();
    assert_int_equal(common_at(0)->kind, GB_HEAP_COMMON);
    assert_int_equal(gb_load(&gb_the.common[0].lock.word), 0);
    frees(OWNERS + 1, OWNERS);
    takes(OWNERS + 1);
    assert_ptr_equal(gb_self, &gb_heap_none);
    frees(OWNERS + 1, OWNERS + 1);
    fixture_check();
    assert_int_equal(glebe_live.stats.errors, 0);
}

static int told;

/* The callback may do anything, so the thread is in no common heap during it. */
static void pressure(void *context, uint64_t used, uint64_t limit)
{
    (void)context, (void)used, (void)limit;
    told++;
    for (int i = 0; i < GB_COMMON_HEAPS; i++)
        assert_int_equal(gb_load(&gb_the.common[i].lock.word), 0);
    glebe_free(glebe_malloc(40));
}

static void test_memory_ends(void **state)
{
    (void)state;
    assert_int_equal(glebe_option("limit", "4000000"), 0);
    told = 0;
    begin();
    glebe_on_pressure(pressure, NULL);
    fixture_thread(OWNERS);
    void *most = glebe_malloc(3 * MIB);
    assert_non_null(most);
    assert_null(glebe_malloc(3 * MIB));
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(told, 1);
    glebe_free(most);
    assert_non_null(most = glebe_malloc(3 * MIB));
    glebe_free(most);
    fixture_check();
    fixture_thread(0);
    fixture_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_threads_share_one),
        FIXTURE_TEST(test_who_allocates_often),
        FIXTURE_TEST(test_abandoned_heaps_first),
        FIXTURE_TEST(test_no_thread_waits_for_another),
        FIXTURE_TEST(test_memory_goes_home),
        FIXTURE_TEST(test_fork_keeps_them),
        FIXTURE_TEST(test_memory_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
