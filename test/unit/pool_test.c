/* Pools: objects by pointers and indices, at both ends; limits, failures, reset; which misuse and damage is found. */
#include "fixture.h"

enum { UNIT = 24, MOST = 7 };

static gb_pool *inner(glebe_pool *pool) { return (gb_pool *)((uintptr_t)pool - offsetof(gb_pool, open)); }

static void well(glebe_pool *pool)
{
    int printed = 0;
    assert_int_equal(glebe_pool_check(pool, fixture_print, &printed), 0);
    fixture_check();
}

/* Takes objects until there are no more, linked through the second word; returns their number. */
static size_t drain(glebe_pool *pool, size_t units, void **chain)
{
    size_t count = 0;
    errno = 0;
    for (void **p; (p = glebe_pool_alloc(pool, units)) != NULL; count++) {
        p[1] = *chain;
        *chain = p;
    }
    assert_int_equal(errno, ENOMEM);
    return count;
}

static size_t undrain(glebe_pool *pool, size_t units, void *chain)
{
    size_t count = 0;
    for (void *next; chain; chain = next, count++) {
        next = ((void **)chain)[1];
        glebe_pool_free(pool, chain, units);
    }
    return count;
}

static void test_indices(void **state)
{
    (void)state;
    static const size_t sizes[] = {8, 16, 24, 40, 56, 96, 4096};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        glebe_pool *pool = glebe_pool_create(NULL, sizes[i], 3, (size_t)1 << 20, 0);
        uint32_t expected = 1, last = 0;
        for (size_t n = 0; n < 150; n++) {
            void *p = glebe_pool_alloc(pool, 1 + n % 3);
            if (!p)
                break;
            uint32_t index = glebe_pool_index(pool, p);
            assert_ptr_equal(glebe_pool_at(pool, index), p);
            assert_int_equal((uintptr_t)p % (sizes[i] & (~sizes[i] + 1) & 15 ? sizes[i] & (~sizes[i] + 1) : 16), 0);
            assert_in_range(index, 1, GB_POOL_SEGMENTS ? UINT32_MAX : ((size_t)1 << 20) / sizes[i]);
            memset(p, 0xff, sizes[i] * (1 + n % 3));
            if (n == 0 && !GB_POOL_SEGMENTS && !GB_AUDIT)
                assert_int_equal(index, expected);
            assert_true(index != last);
            last = index;
        }
        well(pool);
        glebe_pool_destroy(pool);
    }
    fixture_release();
}

/* The last unit of the limit is handed out, and has the highest index; nothing beyond it is. */
static void test_limit(void **state)
{
    (void)state;
    const size_t limit = 2000000;
    glebe_pool *pool = glebe_pool_create(NULL, UNIT, 1, limit, 10000);
    void *chain = NULL;
    size_t count = drain(pool, 1, &chain);
    assert_int_equal(count, limit / UNIT);
    if (!GB_POOL_SEGMENTS) {
        uint32_t highest = 0;
        for (void **p = chain; p; p = p[1])
            highest = glebe_pool_index(pool, p) > highest ? glebe_pool_index(pool, p) : highest;
        assert_int_equal(highest, limit / UNIT);
    }
    well(pool);
    glebe_pool_stats s;
    glebe_pool_stats_read(pool, &s);
    assert_int_equal(s.used_bytes, count * UNIT);
    assert_int_equal(s.free_bytes, 0);
    assert_in_range(s.held_bytes, count * UNIT, limit + limit / 100); /* at most 1 % beside the objects */
    assert_int_equal(undrain(pool, 1, chain), count);
    glebe_pool_stats_read(pool, &s);
    assert_int_equal(s.used_bytes, 0);
    assert_int_equal(s.free_objects, count);
    well(pool);
    glebe_pool_destroy(pool);
    fixture_release();
}

/* A heap's limit counts what its pools hold. */
static void test_limit_of_the_heap(void **state)
{
    (void)state;
    const size_t limit = (size_t)512 << 10;
    glebe_heap *heap = glebe_heap_create(limit);
    glebe_pool *pool = glebe_pool_create(heap, UNIT, 1, (size_t)64 << 20, 0);
    void *chain = NULL;
    size_t count = drain(pool, 1, &chain);
    assert_in_range(count * UNIT, limit / 2, limit);
    assert_in_range(glebe_heap_bytes(heap), count * UNIT, limit);
    well(pool);
    assert_int_equal(glebe_heap_limit(heap, 2 * limit), 0);
    assert_true(drain(pool, 1, &chain) >= count / 2);
    glebe_heap_destroy(heap);
    fixture_release();
}

/* The first length that a small pool is asked for leaves room for the others. */
static void test_small(void **state)
{
    (void)state;
    glebe_pool *pool = glebe_pool_create(NULL, 16, 8, 1024, 0);
    for (size_t units = 1; units <= 8; units++)
        assert_non_null(glebe_pool_alloc(pool, units));
    well(pool);
    glebe_pool_destroy(pool);
    fixture_release();
}

/* If there is no more memory, long objects serve short requests. */
static void test_cut(void **state)
{
    (void)state;
    glebe_pool *pool = glebe_pool_create(NULL, UNIT, MOST, 40000, 0);
    void *chain = NULL;
    size_t count = drain(pool, MOST, &chain), shorter = 0;
    undrain(pool, MOST, chain);
    chain = NULL;
    shorter = drain(pool, 2, &chain);
    assert_in_range(shorter, count * (MOST / 2), 40000 / (2 * UNIT));
    well(pool);
    undrain(pool, 2, chain);
    well(pool);
    glebe_pool_destroy(pool);
    fixture_release();
}

static void test_reset(void **state)
{
    (void)state;
    glebe_heap *heap = glebe_heap_create(0);
    glebe_pool *pool = glebe_pool_create(heap, UNIT, MOST, (size_t)4 << 20, 0);
    glebe_pool_stats s;
    glebe_pool_reset(pool, true);
    size_t first = 0;
    for (int round = 0; round < 4; round++) {
        void *chain = NULL;
        size_t count = drain(pool, 1 + (size_t)round, &chain);
        assert_in_range(count, first / (1 + (size_t)round) * 99 / 100, ((size_t)4 << 20) / UNIT / (1 + (size_t)round));
        first = round == 0 ? count : first;
        undrain(pool, 1 + (size_t)round, round == 2 ? chain : NULL);
        glebe_pool_stats_read(pool, &s);
        uint64_t before = s.held_bytes;
        glebe_pool_reset(pool, round % 2);
        glebe_pool_stats_read(pool, &s);
        assert_int_equal(s.used_bytes, 0);
        assert_int_equal(s.free_bytes, 0);
        assert_true(round % 2
                ? s.held_bytes <= (size_t)80 << 10 && (GB_AUDIT || glebe_heap_bytes(heap) <= (size_t)256 << 10)
                : s.held_bytes == before);
        well(pool);
    }
    glebe_pool_destroy(pool);
    glebe_pool_destroy(NULL);
    glebe_trim(heap);
    assert_int_equal(glebe_heap_bytes(heap), 0);
    assert_null(heap->pools);
    glebe_heap_destroy(heap);
    fixture_release();
}

static void test_wrong_arguments(void **state)
{
    (void)state;
    static const size_t wrong[][3] = {{0, 1, 1000}, {12, 1, 1000}, {4104, 1, 10000}, {8, 0, 1000}, {8, 1025, 1000000},
        {8, 100, 799}, {8, 1, SIZE_MAX}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        errno = 0;
        if (wrong[i][0] != 12 || sizeof(void *) == 8)
            assert_true(!glebe_pool_create(NULL, wrong[i][0], wrong[i][1], wrong[i][2], 0) && errno == EINVAL);
    }
    for (uint64_t units = UINT32_MAX - 2; sizeof(void *) == 8 && units < UINT32_MAX + UINT64_C(2); units++) {
        errno = 0;
        glebe_pool *most = glebe_pool_create(NULL, 8, 1, (size_t)(8 * units), 0); /* the host may lack the space */
        assert_int_equal(errno == EINVAL, units >= UINT32_MAX);
        assert_true(units < UINT32_MAX || !most);
        glebe_pool_destroy(most);
    }
    glebe_pool *pool = glebe_pool_create(NULL, 8, 100, 800, 0);
    assert_non_null(glebe_pool_alloc(pool, 100));
    assert_null(glebe_pool_alloc(pool, 0));
    assert_int_equal(errno, EINVAL);
    glebe_pool_destroy(pool);
    fixture_release();
}

/* Each host call that can fail does, in turn. */
static void test_failures(void **state)
{
    (void)state;
    bool failed = true;
    for (uint64_t n = 1; failed && n < 400; n++) {
        fixture_start(n);
        gb_fake_fail(1u << GB_FAKE_COMMIT | 1u << GB_FAKE_GROW | 1u << GB_FAKE_PURGE | 1u << GB_FAKE_RESERVE, n, 2);
        glebe_pool *pool = glebe_pool_create(NULL, UNIT, MOST, (size_t)1 << 20, 0);
        void *chain = NULL;
        size_t count = 0;
        if (pool) {
            count = drain(pool, 3, &chain);
            well(pool);
            failed = fake.failed != 0;
            gb_fake_fail(0, 0, 0);
            count += drain(pool, 3, &chain);
            assert_int_equal(undrain(pool, 3, chain), count);
            well(pool);
            assert_in_range(count, ((size_t)1 << 20) / (3 * UNIT) - 20, ((size_t)1 << 20) / (3 * UNIT));
            glebe_pool_reset(pool, true);
            glebe_pool_destroy(pool);
        } else {
            assert_int_equal(errno, ENOMEM);
            failed = fake.failed != 0;
        }
        gb_fake_fail(0, 0, 0);
        fixture_release();
        assert_true(n > 1 || failed);
    }
    assert_false(failed);
}

/* ---- misuse: always, and in the audit build ---- */

static void test_foreign(void **state)
{
    (void)state;
    char line[160];
    glebe_pool *pool = glebe_pool_create(NULL, UNIT, 1, 100000, 0),
        *other = glebe_pool_create(NULL, UNIT, 1, 100000, 0);
    void *p = glebe_pool_alloc(pool, 1), *foreign[] = {glebe_pool_alloc(other, 1), &line, (void *)1};
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        glebe_pool_free(pool, foreign[i], 1);
        snprintf(line, sizeof line, "glebe: glebe_pool_free(0x%zx): address is not from this pool\n",
            (size_t)foreign[i]);
        fixture_reported(line);
    }
    glebe_pool_free(pool, NULL, 1);
    glebe_pool_free(pool, p, 1);
    fixture_printed("");
    assert_int_equal(glebe_live.stats.errors, 3);
    well(pool);
    glebe_pool_destroy(pool);
    glebe_pool_destroy(other);
}

static void test_audit(void **state)
{
    (void)state;
    char line[160];
    if (!GB_AUDIT)
        return;
    glebe_pool *pool = glebe_pool_create(NULL, UNIT, MOST, 100000, 0);
    unsigned char *p = glebe_pool_alloc(pool, 3), *q = glebe_pool_alloc(pool, 3);
    glebe_pool_free(pool, p + 8, 3);
    snprintf(line, sizeof line,
        "glebe: glebe_pool_free(0x%zx): address is 8 bytes inside an object of 3 units that starts at 0x%zx\n",
        (size_t)(p + 8), (size_t)p);
    fixture_reported(line);
    glebe_pool_free(pool, p + 2 * UNIT, 1);
    snprintf(line, sizeof line,
        "glebe: glebe_pool_free(0x%zx): address is 48 bytes inside an object of 3 units that starts at 0x%zx\n",
        (size_t)(p + 48), (size_t)p);
    fixture_reported(line);
    glebe_pool_free(pool, p, 2);
    snprintf(line, sizeof line, "glebe: glebe_pool_free(0x%zx): size 2 is wrong: the object has 3 units\n", (size_t)p);
    fixture_reported(line);
    glebe_pool_free(pool, p, 3);
    fixture_printed("");
    assert_int_equal(p[sizeof(void *)], GB_POOL_POISON);
    glebe_pool_free(pool, q, 3);
    glebe_pool_free(pool, p, 3);
    snprintf(line, sizeof line,
        "glebe: glebe_pool_free(0x%zx): double free: the object of 3 units here is free already\n", (size_t)p);
    fixture_reported(line);
    well(pool);
    q[50] = 1;
    assert_ptr_equal(glebe_pool_alloc(pool, 3), q);
    snprintf(line, sizeof line,
        "glebe: glebe_pool_alloc(0x%zx): free object of 3 units was written to after it was freed, 50 bytes inside\n",
        (size_t)q);
    fixture_reported(line);
    assert_ptr_equal(glebe_pool_alloc(pool, 3), p);
    fixture_printed("");
    well(pool);
    glebe_pool_destroy(pool);
}

/* ---- damage: the check names the address ---- */

static const void *found_at;

static void find(void *context, int invariant, const void *address, const char *what)
{
    (void)context, (void)what;
    assert_int_equal(invariant, 10);
    if (!found_at)
        found_at = address;
}

static void finds(glebe_pool *pool, const void *address)
{
    found_at = NULL;
    assert_true(glebe_pool_check(pool, find, NULL) > 0);
    assert_ptr_equal(found_at, address);
    assert_true(glebe_check(NULL, 2, find, NULL) > 0);
    assert_int_equal(glebe_check(NULL, 1, find, NULL), 0);
}

static void test_damage(void **state)
{
    (void)state;
    glebe_pool *pool = glebe_pool_create(NULL, UNIT, MOST, 100000, 0);
    uintptr_t *a = glebe_pool_alloc(pool, 2), *b = glebe_pool_alloc(pool, 2), *c = glebe_pool_alloc(pool, 3);
    glebe_pool_free(pool, a, 2);
    glebe_pool_free(pool, b, 2);
    glebe_pool_free(pool, c, 3);
    well(pool);
    uintptr_t link = *b;
    static const uintptr_t wild[] = {8, 0x1000, UINTPTR_MAX - 7};
    for (size_t i = 0; i < sizeof wild / sizeof *wild; i++) {
        *b = wild[i];
        finds(pool, b);
    }
    *b = link + 8; /* inside an object */
    finds(pool, b);
    *b = link | 1;
    finds(pool, b);
    *b = (uintptr_t)b; /* a circle */
    finds(pool, b);
    assert_int_equal(*b, (uintptr_t)b);
    *b = link;
    well(pool); /* the check left no mark */
    link = *c; /* two lists share a tail: a is free twice */
    *c = (uintptr_t)a;
    finds(pool, a);
    *c = link;
    void *head = inner(pool)->lists[3];
    inner(pool)->lists[3] = (void *)inner(pool)->fresh; /* not given out yet */
    finds(pool, &inner(pool)->lists[3]);
    inner(pool)->lists[3] = head;
    if (GB_AUDIT) {
        inner(pool)->lists[3] = NULL;
        finds(pool, pool);
        inner(pool)->lists[3] = head;
    }
    well(pool);
    glebe_pool_destroy(pool);
    fixture_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_indices),
        FIXTURE_TEST(test_limit),
        FIXTURE_TEST(test_limit_of_the_heap),
        FIXTURE_TEST(test_small),
        FIXTURE_TEST(test_cut),
        FIXTURE_TEST(test_reset),
        FIXTURE_TEST(test_wrong_arguments),
        FIXTURE_TEST(test_failures),
        FIXTURE_TEST(test_foreign),
        FIXTURE_TEST(test_audit),
        FIXTURE_TEST(test_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
