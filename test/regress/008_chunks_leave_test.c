/* With limited address space, chunks kept theirs: when all small blocks were free, a huge block still found none. A
 * chunk that is wholly free now returns its address space, and requests it again when needed. */
#include "../unit/fixture.h"

enum { BLOCKS = 100000, BYTES = 1000 };
static void *blocks[BLOCKS];

static int fill(void)
{
    int n = 0;
    while (n < BLOCKS && (blocks[n] = glebe_malloc(BYTES)) != NULL)
        fixture_fill(blocks[n], BYTES, (uint64_t)n), n++;
    return n;
}

static void empty(int n)
{
    for (int i = 0; i < n; i++) {
        assert_true(fixture_filled(blocks[i], BYTES, (uint64_t)i));
        glebe_free(blocks[i]);
    }
    fixture_check();
}

static void limited(void)
{
    fake.address_bytes = fake.memory_bytes = (size_t)64 << 20;
    glebe_free(glebe_malloc(10));
    assert_false(gb_the.reserved);
}

static void test_huge_after_small(void **state)
{
    (void)state;
    limited();
    for (int round = 0; round < 3; round++) {
        int n = fill();
        assert_in_range(n, 55000, 66000);
        assert_null(glebe_malloc((size_t)40 << 20));
        fixture_check();
        fixture_balance();
        empty(n);
        void *huge = glebe_malloc((size_t)55 << 20);
        assert_non_null(huge);
        assert_true(gb_the.arena.away.count > 20);
        fixture_check();
        fixture_balance();
        glebe_free(huge);
    }
}

static void test_collect_gives_address_space(void **state)
{
    (void)state;
    limited();
    empty(fill());
    assert_true(glebe_trim(NULL) > 0);
    assert_true(fake.committed_bytes < (size_t)4 << 20);
    fixture_check();
    fixture_balance();
    empty(fill());
    fixture_release();
}

/* The timed purge returns address space too. */
static void test_time_gives_address_space(void **state)
{
    (void)state;
    limited();
    empty(fill());
    for (int i = 0; i < 200; i++) {
        fake.now_ms += 1000;
        glebe_free(glebe_malloc(100000));
    }
    assert_true(fake.committed_bytes < (size_t)8 << 20);
    fixture_check();
    fixture_balance();
}

static void test_place_taken_meanwhile(void **state)
{
    (void)state;
    limited();
    int all = fill();
    uint32_t chunks = gb_the.arena.chunks;
    empty(all);
    glebe_trim(NULL);
    uint32_t away = gb_the.arena.away.count;
    assert_true(away > 20);
    fake.taken_from = gb_the.base + 3 * GB_CHUNK_BYTES;
    fake.taken_to = fake.taken_from + 5 * GB_CHUNK_BYTES + 12345;
    int n = fill();
    assert_in_range(n, all - 100, all + 100); /* other chunks serve instead */
    assert_true(gb_the.arena.chunks > chunks);
    for (int i = 0; i < n; i++)
        assert_true((uintptr_t)blocks[i] + BYTES <= fake.taken_from || (uintptr_t)blocks[i] >= fake.taken_to);
    fixture_check();
    glebe_free((void *)(fake.taken_from + 64)); /* foreign, though it is among our slices */
    assert_int_equal(glebe_live.stats.errors, 1);
    glebe_live.stats.errors = 0;
    empty(n);
    glebe_trim(NULL);
    fake.taken_from = fake.taken_to = 0;
    uint32_t now = gb_the.arena.chunks;
    empty(fill());
    assert_int_equal(gb_the.arena.chunks, now); /* the chunks are back */
    fixture_release();
}

/* If the host refuses to unmap, the chunk stays and serves. */
static void test_refused(void **state)
{
    (void)state;
    limited();
    empty(fill());
    gb_fake_fail(1u << GB_FAKE_DECOMMIT, 1, UINT64_MAX);
    glebe_trim(NULL);
    assert_int_equal(gb_the.arena.away.count, 0);
    fixture_check();
    fixture_balance();
    empty(fill());
    void *huge = glebe_malloc((size_t)8 << 20);
    gb_fake_fail(0, 0, 0);
    glebe_free(huge);
    fixture_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_huge_after_small),
        FIXTURE_TEST(test_collect_gives_address_space),
        FIXTURE_TEST(test_time_gives_address_space),
        FIXTURE_TEST(test_place_taken_meanwhile),
        FIXTURE_TEST(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
