/* Memory pressure: which memory is purged at which mark; when, how often and in which state the program is called. */
#include "fixture.h"

static struct {
    int calls;
    uint64_t used, limit;
    void *cache[4000]; /* blocks that the callback frees */
    int cached;
    int allocates; /* how many blocks of all kinds it allocates in the callback; some of them it keeps */
    void *kept[64];
    bool inside;
    void (*also)(void);
} program;

static int pressure_setup(void **state)
{
    memset(&program, 0, sizeof program);
    return fixture_setup(state);
}

#define PRESSURE_TEST(f) cmocka_unit_test_setup(f, pressure_setup)

static void told(void *context, uint64_t used, uint64_t limit)
{
    assert_ptr_equal(context, &program);
    assert_false(program.inside);
    program.inside = true;
    assert_int_equal(gb_load(&gb_the.lock.word), 0);
    assert_int_equal(gb_load(&gb_the.abandoned.lock.word), 0);
    program.calls++;
    program.used = used;
    program.limit = limit;
    while (program.cached > 0)
        glebe_free(program.cache[--program.cached]);
    for (int i = 0; i < program.allocates; i++) {
        void *p = glebe_malloc((size_t)(i * i * 7 % 5000 + 1));
        if (i % 3 == 0 && i / 3 < 64)
            program.kept[i / 3] = p;
        else
            glebe_free(p);
    }
    if (program.also)
        program.also();
    errno = EDOM;
    program.inside = false;
}

static void fill_cache(size_t bytes, int count)
{
    for (program.cached = 0; program.cached < count; program.cached++) {
        program.cache[program.cached] = glebe_malloc(bytes);
        assert_non_null(program.cache[program.cached]);
    }
}

/* Makes the heap large enough for looks at pressure. */
static void grow(void)
{
    for (int i = 0; i < 70; i++)
        assert_non_null(glebe_malloc(1000000));
}

static void tick(uint32_t ms)
{
    fake.now_ms += ms;
    gb_tick_due(gb_self);
}

/* Over 85 % free memory is purged; spare pages, thread free lists and warm blocks stay. Over 95 % they are purged
 * too. */
static void test_marks(void **state)
{
    (void)state;
    grow();
    void *large = glebe_malloc(900000), *warm = glebe_malloc(60000), *small[400];
    for (int i = 0; i < 400; i++)
        small[i] = glebe_malloc(500);
    for (int i = 0; i < 400; i++)
        glebe_free(small[i]);
    glebe_free(warm);
    glebe_free(large);
    assert_true(gb_self->spare_bytes > 0);
    fake.pressure_limit = 1000;
    fake.pressure_used = 850;
    tick(250);
    assert_int_equal(fake.purged_bytes, 0);
    fake.pressure_used = 851;
    tick(250);
    assert_true(fake.purged_bytes >= 900000);
    assert_true(gb_self->spare_bytes > 0);
    uint64_t used = glebe_live.stats.used_bytes;
    fake.pressure_used = 951;
    tick(250);
    assert_int_equal(gb_self->spare_bytes, 0);
    assert_true(glebe_live.stats.used_bytes < used - 100000);
    fixture_check();
}

static void test_abandoned_give_too(void **state)
{
    (void)state;
    grow();
    fixture_thread(1);
    void *p = glebe_malloc(100);
    glebe_heap *abandoned = gb_self;
    fixture_thread_end(1);
    fixture_thread(0);
    glebe_free(p);
    gb_lock_take(&gb_the.abandoned.lock); /* else the abandoned heap would take the block and return its page at once */
    gb_remote_flush(gb_self);
    gb_lock_drop(&gb_the.abandoned.lock);
    assert_true(gb_load(&abandoned->bytes) > 0);
    fake.pressure_limit = 1000;
    fake.pressure_used = 960;
    tick(250);
    assert_int_equal(gb_load(&abandoned->bytes), 0);
}

/* Checks every 200 ms, every 20 ms from 85 % on; the program is called at most once a second. */
static void test_how_often(void **state)
{
    (void)state;
    grow();
    glebe_on_pressure(told, &program);
    fake.pressure_limit = 100000;
    fake.pressure_used = 95000;
    tick(250);
    assert_int_equal(program.calls, 0); /* not above it */
    fake.pressure_used = 95001;
    for (uint32_t ms = 0; ms < 10000; ms += 5)
        tick(5);
    assert_in_range(program.calls, 9, 11);
    assert_int_equal(program.used, 95001);
    assert_int_equal(program.limit, 100000);
    glebe_on_pressure(NULL, NULL);
    tick(2000);
    assert_in_range(program.calls, 9, 11);
}

/* Without a limit glebe checks every five seconds. A limit may be set at any time, raised, lowered and removed. */
static void test_a_limit_that_changes(void **state)
{
    (void)state;
    grow();
    glebe_on_pressure(told, &program);
    for (uint32_t ms = 0; ms < 3600000; ms += 50)
        tick(50);
    assert_in_range(fake.pressure_looks, 700, 721);
    fake.pressure_limit = 1000;
    fake.pressure_used = 999;
    uint32_t seen = 0;
    for (; seen < 5050 && program.calls == 0; seen += 50)
        tick(50);
    assert_int_equal(program.calls, 1);
    fake.pressure_limit = 10000;
    tick(2000);
    tick(2000);
    assert_int_equal(program.calls, 1);
    fake.pressure_limit = 1000;
    tick(250);
    assert_int_equal(program.calls, 2);
    fake.pressure_limit = 0;
    tick(250);
    uint64_t looks = fake.pressure_looks;
    for (uint32_t ms = 0; ms < 60000; ms += 50)
        tick(50);
    assert_in_range(fake.pressure_looks - looks, 11, 13);
    assert_int_equal(program.calls, 2);
}

/* Huge blocks count as other memory does: a process that has nothing else looks too. */
static void test_huge_blocks_alone(void **state)
{
    (void)state;
    glebe_on_pressure(told, &program);
    fake.pressure_limit = 1000;
    fake.pressure_used = 960;
    for (int i = 0; i < 30 && program.calls == 0; i++) {
        fake.now_ms += 250;
        assert_non_null(glebe_malloc(4 << 20));
        if (i < 10)
            assert_int_equal(program.calls, 0);
    }
    assert_int_equal(program.calls, 1);
}

/* The tick that calls the program runs inside a malloc of each kind, and the callback uses every kind. */
static void test_from_inside_malloc(void **state)
{
    (void)state;
    static const size_t sizes[] = {16, 100, 500, 2000, 3000, 20000, 60000, 200000, 3000000};
    grow();
    glebe_on_pressure(told, &program);
    fake.pressure_limit = 1000;
    fake.pressure_used = 960;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        int calls = program.calls;
        fill_cache(sizes[s], sizes[s] < 5000 ? 1000 : 20);
        program.allocates = 190;
        for (int i = 0; i < 4000 && program.calls == calls; i++) {
            fake.now_ms += 250;
            errno = 0;
            void *p = glebe_malloc(sizes[s]);
            assert_non_null(p);
            assert_int_equal(errno, 0);
            fixture_fill(p, 16, s);
            assert_true(fixture_filled(p, 16, s));
        }
        assert_true(program.calls > calls);
        assert_int_equal(program.cached, 0);
        assert_int_equal(gb_self->kind, GB_HEAP_THREAD);
        fixture_check();
        fixture_balance();
    }
    /* the heap used in the callbacks: a single one, reclaimed each time */
    assert_true(glebe_live.stats.heaps_abandoned == 1);
}

/* Before a request fails by the process's limit glebe calls the program; memory that it frees serves the request. */
static void test_limit(void **state)
{
    (void)state;
    static const size_t sizes[] = {40, 1000, 5000, 60000, 300000, 2000000};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        fixture_start(1);
        memset(&program, 0, sizeof program);
        glebe_option("limit", "16M");
        glebe_on_pressure(told, &program);
        fill_cache(sizes[s], sizes[s] > 5000 ? (int)(8000000 / sizes[s]) : 1500);
        program.allocates = s % 2 ? 190 : 0;
        while (program.calls == 0) {
            errno = 0;
            void *p = glebe_malloc(sizes[s]);
            assert_non_null(p);
            assert_int_equal(errno, 0);
        }
        assert_in_range(program.used, (8 << 20), 16 << 20);
        assert_int_equal(program.limit, 16 << 20);
        fixture_check();
        int calls = program.calls;
        while (glebe_malloc(sizes[s])) {} /* until there is nothing left to free */
        assert_int_equal(errno, ENOMEM);
        assert_true(program.calls > calls);
        calls = program.calls;
        assert_null(glebe_malloc(sizes[s])); /* each time */
        assert_int_equal(program.calls, calls + 1);
        assert_true(glebe_live.stats.used_bytes <= 16 << 20);
        fixture_check();
    }
}

static void test_caches_go_first(void **state)
{
    (void)state;
    glebe_option("limit", "8M");
    glebe_on_pressure(told, &program);
    /* spare pages and warm blocks of one size use up the limit for the next */
    for (int round = 0; round < 30; round++) {
        void *blocks[100];
        size_t bytes = (size_t)60000 + (size_t)round * 100;
        for (int i = 0; i < 100; i++) {
            blocks[i] = glebe_malloc(bytes);
            assert_non_null(blocks[i]);
        }
        for (int i = 0; i < 100; i++)
            glebe_free(blocks[i]);
    }
    assert_int_equal(program.calls, 0);
}

static void test_what_does_not_tell(void **state)
{
    (void)state;
    glebe_on_pressure(told, &program);
    glebe_heap *heap = glebe_heap_create(1 << 20);
    while (glebe_heap_malloc(heap, 1000)) {} /* a heap's own limit */
    assert_null(glebe_heap_malloc(heap, 100000));
    assert_null(glebe_heap_malloc(heap, 10000000));
    fake.memory_bytes = fake.committed_bytes;
    assert_null(glebe_malloc(50000000)); /* the system's */
    fake.memory_bytes = SIZE_MAX;
    glebe_option("limit", "4M");
    assert_null(glebe_malloc(5000000)); /* more than the caches have */
    assert_null(glebe_heap_malloc(heap, 100000));
    assert_int_equal(program.calls, 0);
    assert_null(glebe_malloc(4000000));
    assert_int_equal(program.calls, 1); /* control */
    fixture_check();
}

static void asks_too_much(void)
{
    assert_null(glebe_malloc(3000000));
    assert_int_equal(errno, ENOMEM);
}

static void test_never_within_itself(void **state)
{
    (void)state;
    glebe_option("limit", "4M");
    glebe_on_pressure(told, &program);
    assert_non_null(glebe_malloc(2000000));
    program.also = asks_too_much;
    assert_null(glebe_malloc(3000000));
    assert_int_equal(program.calls, 1);
    fixture_check();
}

static glebe_heap *cache_heap;

static void drops_a_heap(void)
{
    glebe_heap_destroy(cache_heap);
    cache_heap = NULL;
    program.also = NULL;
}

static void test_a_heap_may_be_the_cache(void **state)
{
    (void)state;
    glebe_option("limit", "4M");
    glebe_on_pressure(told, &program);
    cache_heap = glebe_heap_create(0);
    glebe_heap *other = glebe_heap_create(0);
    assert_non_null(glebe_heap_malloc(cache_heap, 3000000));
    program.also = drops_a_heap;
    assert_non_null(glebe_heap_malloc(other, 3000000));
    assert_int_equal(program.calls, 1);
    fixture_check();
}

static struct {
    void *small[1000], *medium[40];
} pages;

static void forks(void)
{
    gb_fork_prepare();
    gb_fork_child();
}

static void test_fork_in_the_callback(void **state)
{
    (void)state;
    glebe_option("limit", "4M");
    glebe_on_pressure(told, &program);
    fill_cache(100, 1000);
    program.also = forks;
    program.allocates = 20;
    assert_null(glebe_malloc(4100000));
    assert_int_equal(program.calls, 1);
    assert_int_equal(gb_self->kind, GB_HEAP_THREAD);
    fixture_check();
}

/* The child frees all blocks of pages that its thread's heap, left for the callback, still lists. */
static void forks_and_frees(void)
{
    forks();
    for (int i = 0; i < 1000; i++)
        glebe_free(pages.small[i]);
    for (int i = 0; i < 40; i++)
        glebe_free(pages.medium[i]);
}

static void test_fork_in_the_callback_then_free(void **state)
{
    (void)state;
    glebe_option("limit", "4M");
    glebe_on_pressure(told, &program);
    for (int i = 0; i < 1000; i++)
        pages.small[i] = glebe_malloc(100);
    for (int i = 0; i < 40; i++)
        pages.medium[i] = glebe_malloc(5000);
    program.also = forks_and_frees;
    void *huge = glebe_malloc(4000000);
    assert_int_equal(program.calls, 1);
    fixture_check();
    glebe_option("limit", "0");
    for (int i = 0; i < 1000; i++)
        assert_non_null(pages.small[i] = glebe_malloc(i % 2 ? 100 : 900));
    fixture_check();
    for (int i = 0; i < 1000; i++)
        glebe_free(pages.small[i]);
    glebe_free(huge);
    fixture_release();
}

static void test_not_while_fork_handlers_run(void **state)
{
    (void)state;
    glebe_option("limit", "4M");
    glebe_on_pressure(told, &program);
    assert_non_null(glebe_malloc(2000000));
    gb_fork_prepare();
    assert_null(glebe_malloc(3000000));
    gb_fork_parent();
    assert_int_equal(program.calls, 0);
    assert_null(glebe_malloc(3000000));
    assert_int_equal(program.calls, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PRESSURE_TEST(test_marks),
        PRESSURE_TEST(test_abandoned_give_too),
        PRESSURE_TEST(test_how_often),
        PRESSURE_TEST(test_a_limit_that_changes),
        PRESSURE_TEST(test_huge_blocks_alone),
        PRESSURE_TEST(test_from_inside_malloc),
        PRESSURE_TEST(test_limit),
        PRESSURE_TEST(test_caches_go_first),
        PRESSURE_TEST(test_what_does_not_tell),
        PRESSURE_TEST(test_never_within_itself),
        PRESSURE_TEST(test_a_heap_may_be_the_cache),
        PRESSURE_TEST(test_fork_in_the_callback),
        PRESSURE_TEST(test_fork_in_the_callback_then_free),
        PRESSURE_TEST(test_not_while_fork_handlers_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
