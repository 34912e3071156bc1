/* Huge blocks that grow where memory is resident elsewhere: which are copied there, and which stay. */
#include "fixture.h"

#define MIB ((size_t)1 << 20)

/* A block that grows by half is copied to idle memory, although free memory behind it would serve: that was never
 * touched. Small steps stay in place. */
static void test_growth_into_idle_memory(void **state)
{
    (void)state;
    if (sizeof(void *) != 8)
        skip(); /* address space is limited: each block stays as long as it can */
    void *idle = glebe_malloc(8 * MIB), *between = glebe_malloc(2 * MIB);
    memset(idle, 1, 8 * MIB);
    unsigned char *p = glebe_malloc(2 * MIB);
    fixture_fill(p, 2 * MIB, 3);
    p = glebe_realloc(p, 2 * MIB + (256 << 10)); /* has free space behind it from here on */
    glebe_free(idle);
    assert_ptr_equal(glebe_realloc(p, 2 * MIB + (512 << 10)), p);
    uint64_t commits = fake.calls[GB_FAKE_COMMIT];
    unsigned char *grown = glebe_realloc(p, 4 * MIB);
    assert_ptr_equal(grown, idle);
    assert_true(fixture_filled(grown, 2 * MIB, 3));
    assert_int_equal(fake.calls[GB_FAKE_COMMIT], commits);
    fixture_check();
    glebe_free(grown);
    glebe_free(between);
    fixture_release();
}

/* The same block stays where it is if nothing touched it, if idle memory has no room for further growth, or if the
 * limit has no room for both places. */
static void test_growth_that_stays(void **state)
{
    enum { SPARSE, SHORT, LIMITED, REASONS };
    (void)state;
    for (int reason = 0; reason < REASONS; reason++) {
        size_t length = reason == SHORT ? 4 * MIB : 8 * MIB;
        void *keep = glebe_malloc(100 * MIB), *idle = glebe_malloc(length), *between = glebe_malloc(2 * MIB);
        memset(idle, 1, length);
        glebe_heap *heap = glebe_heap_create(reason == LIMITED ? 6 * MIB : 0);
        unsigned char *p = glebe_heap_malloc(heap, 2 * MIB + (512 << 10));
        fixture_fill(p, 2 * MIB, 3);
        glebe_free(idle);
        fake.sparse = reason == SPARSE;
        assert_ptr_equal(glebe_heap_realloc(heap, p, 4 * MIB), p);
        fake.sparse = false;
        assert_true(fixture_filled(p, 2 * MIB, 3));
        fixture_check();
        glebe_heap_destroy(heap);
        glebe_free(between);
        glebe_free(keep);
        fixture_release();
    }
}

/* At a limit that has no room for a copy, a block whose way is blocked moves by its page tables. */
static void test_growth_at_a_limit(void **state)
{
    (void)state;
    void *keep = glebe_malloc(100 * MIB), *idle = glebe_malloc(16 * MIB), *between = glebe_malloc(2 * MIB);
    memset(idle, 1, 16 * MIB);
    glebe_heap *heap = glebe_heap_create(10 * MIB);
    unsigned char *p = glebe_heap_malloc(heap, 6 * MIB);
    void *behind = glebe_malloc(2 * MIB);
    fixture_fill(p, 6 * MIB, 5);
    glebe_free(idle);
    p = glebe_heap_realloc(heap, p, 9 * MIB);
    assert_non_null(p);
    assert_int_equal(fake.calls[GB_FAKE_MOVE], 1);
    assert_true(fixture_filled(p, 6 * MIB, 5));
    fixture_check();
    glebe_heap_destroy(heap);
    glebe_free(behind);
    glebe_free(between);
    glebe_free(keep);
    fixture_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_growth_into_idle_memory),
        FIXTURE_TEST(test_growth_that_stays),
        FIXTURE_TEST(test_growth_at_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
