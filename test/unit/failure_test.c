/* Failure injection. One scripted workload, which uses everything, runs again and again. In the n-th run the n-th host
 * call that can fail does fail, until a run ends before its failure. Then the same with all calls failing from the n-th
 * on, for a while. Each failure must end in NULL and ENOMEM or be absorbed: blocks keep their contents, the heap stays
 * sound, and in the end no memory is lost. */
#include "fixture.h"

enum { BLOCKS = 700 };

static struct {
    void *at;
    size_t bytes;
} script_blocks[BLOCKS];
static int script_count;
static uint64_t script_refused;

static void script_enter(void *p, size_t bytes)
{
    if (!p) {
        assert_int_equal(errno, ENOMEM);
        script_refused++;
        return;
    }
    assert_true(glebe_usable_size(p) >= bytes);
    assert_true(script_count < BLOCKS);
    fixture_fill(p, bytes < 4096 ? bytes : 4096, bytes);
    if (bytes > 4096)
        ((unsigned char *)p)[bytes - 1] = 77;
    script_blocks[script_count].at = p;
    script_blocks[script_count++].bytes = bytes;
}

static void script_verify(int i)
{
    size_t bytes = script_blocks[i].bytes;
    assert_true(fixture_filled(script_blocks[i].at, bytes < 4096 ? bytes : 4096, bytes));
    if (bytes > 4096)
        assert_int_equal(((unsigned char *)script_blocks[i].at)[bytes - 1], 77);
}

static void script_free(int i)
{
    script_verify(i);
    glebe_free(script_blocks[i].at);
    script_blocks[i] = script_blocks[--script_count];
}

static void script_malloc(size_t bytes, int count)
{
    for (int i = 0; i < count; i++) {
        errno = 0;
        script_enter(glebe_malloc(bytes), bytes);
    }
}

static void script_calloc(size_t bytes)
{
    errno = 0;
    void *p = glebe_calloc(1, bytes);
    assert_true(!p || fixture_zero(p, bytes));
    script_enter(p, bytes);
}

static void script_realloc(int i, size_t bytes)
{
    if (i < 0 || i >= script_count)
        return;
    script_verify(i);
    errno = 0;
    unsigned char *p = glebe_realloc(script_blocks[i].at, bytes);
    if (!p) {
        assert_int_equal(errno, ENOMEM);
        script_verify(i); /* the block is unchanged */
        script_refused++;
        return;
    }
    size_t before = script_blocks[i].bytes, least = before < bytes ? before : bytes;
    assert_true(fixture_filled(p, least < 4096 ? least : 4096, before));
    script_blocks[i] = script_blocks[--script_count];
    script_enter(p, bytes);
}

static void script_all(int from, int every)
{
    for (int i = script_count - 1 - from; i >= 0; i -= every)
        script_free(i);
}

static void script(void)
{
    const size_t sizes[] = {1, 24, 100, 700, 2048, 2049, 9000, 60000, 65537, 300000, 1 << 20};
    script_count = 0;
    script_refused = 0;
    script_malloc(40, 60);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        script_malloc(sizes[i], 5);
        script_calloc(sizes[i]);
        errno = 0;
        script_enter(glebe_aligned_alloc(8192, sizes[i]), sizes[i]);
    }
    fixture_check();
    script_malloc(3 << 20, 2);
    script_calloc(5 << 20);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        script_realloc((int)(i * 7), sizes[i] * 3 + 100);
    script_realloc(script_count - 1, 9 << 20); /* within its run, and beyond it */
    script_realloc(script_count - 1, 40 << 20);
    script_realloc(script_count - 1, 100);
    fixture_check();
    glebe_heap *heap = glebe_heap_create(0);
    for (int i = 0; heap && i < 50; i++) {
        errno = 0;
        void *p = glebe_heap_malloc(heap, (size_t)i * 500);
        assert_true(p || errno == ENOMEM);
        if (p && i % 3 == 0)
            glebe_heap_free_sized(heap, p, (size_t)i * 500);
    }
    fixture_thread(1); /* another thread frees and allocates */
    script_all(0, 2);
    script_malloc(40, 20);
    script_malloc(5000, 20);
    fixture_check();
    fixture_thread_end(1);
    fixture_thread(2); /* reclaims the first one's heap */
    script_malloc(40, 40);
    fake.now_ms += 400;
    script_malloc(300000, 3);
    script_all(1, 3);
    fake.now_ms += 400;
    script_malloc(30, 300); /* ticks, and so purges */
    fake.now_ms += 600;
    script_malloc(3000, 40);
    glebe_heap_destroy(heap);
    fixture_thread(0);
    glebe_trim(NULL);
    script_malloc(40, 20);
    script_calloc(100000);
    assert_int_equal(glebe_option("background", "1"), 0);
    fixture_check();
    fixture_balance();
}

static void script_end(void)
{
    while (script_count)
        script_free(script_count - 1);
    gb_fake_fail(0, 0, 0);
    fixture_release();
    assert_int_equal(glebe_live.stats.errors, 0);
    script_count = 0;
}

static const uint32_t ALL = (1u << GB_FAKE_CALLS) - 1;

static void sweep(uint32_t calls, uint64_t length, bool reserved, const char *what)
{
    const char *text = getenv("GLEBE_TEST_STRIDE"); /* slow builds try only every n-th call */
    uint64_t at = 1, stride = text && atoi(text) > 0 ? (uint64_t)atoi(text) : 1;
    for (bool more = true; more; at += stride) {
        fixture_start(at);
        if (!reserved)
            fake.address_bytes = (size_t)1 << 28;
        gb_fake_fail(calls, at, length);
        script();
        more = fake.failed > 0;
        if (!more)
            assert_int_equal(script_refused, 0);
        script_end();
    }
    printf("%s: %llu runs\n", what, (unsigned long long)((at - 1) / stride));
    assert_true(at > 3);
}

static void test_each_call_once(void **state)
{
    (void)state;
    sweep(ALL, 1, true, "each call");
}

static void test_runs_of_failures(void **state)
{
    (void)state;
    sweep(ALL, 7, true, "seven in a row");
}

static void test_no_memory_from_there_on(void **state)
{
    (void)state;
    sweep(1u << GB_FAKE_COMMIT, UINT64_MAX, true, "no memory");
}

static void test_no_purge_and_no_move(void **state)
{
    (void)state;
    sweep(1u << GB_FAKE_PURGE | 1u << GB_FAKE_MOVE, UINT64_MAX, true, "no purge, no move");
}

static void test_limited_address_space(void **state)
{
    (void)state;
    if (sizeof(void *) == 8)
        sweep(ALL, 1, false, "each call, nothing reserved");
}

static void test_no_address_space(void **state)
{
    (void)state;
    gb_fake_fail(1u << GB_FAKE_RESERVE, 1, UINT64_MAX); /* the core works without a reservation */
    assert_non_null(glebe_malloc(10));
    fixture_start(2);
    gb_fake_fail(ALL, 1, UINT64_MAX);
    for (int i = 0; i < 3; i++) {
        errno = 0;
        assert_null(glebe_malloc(10));
        assert_int_equal(errno, ENOMEM);
        assert_null(glebe_malloc(10000));
        assert_null(glebe_malloc(10000000));
        assert_null(glebe_calloc(10, 10));
        assert_null(glebe_aligned_alloc(64, 100));
        assert_null(glebe_heap_create(0));
        assert_int_equal(glebe_trim(NULL), 0);
        glebe_free(NULL);
    }
    gb_fake_fail(0, 0, 0);
    assert_non_null(glebe_malloc(10));
    fixture_check();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_each_call_once),
        FIXTURE_TEST(test_runs_of_failures),
        FIXTURE_TEST(test_no_memory_from_there_on),
        FIXTURE_TEST(test_no_purge_and_no_move),
        FIXTURE_TEST(test_limited_address_space),
        FIXTURE_TEST(test_no_address_space),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
