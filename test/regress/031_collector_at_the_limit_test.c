/* At the option `limit` an object of up to 1 MiB failed at once: glebe did not call the program's callback, and did not
 * try again with the memory that it frees. */
#include "../unit/fixture.h"

enum { MIB = 1 << 20, KEPT = 12 };

static void *kept[KEPT];
static size_t kept_count, told;

static void pressure(void *context, uint64_t used, uint64_t limit)
{
    (void)context;
    assert_true(used <= limit);
    told++;
    if (kept_count)
        glebe_free(kept[--kept_count]);
}

/* A collector takes all memory; the program holds blocks of malloc, and frees them one by one. */
static void fill(size_t bytes)
{
    void **first = NULL;
    size_t taken = 0;
    glebe_gc *gc = glebe_gc_create(0);
    assert_int_equal(glebe_gc_root_add(gc, &first, sizeof first), 0);
    told = 0;
    for (kept_count = 0; kept_count < KEPT; kept_count++)
        assert_non_null(kept[kept_count] = glebe_malloc(3 * MIB));
    gb_the.options.limit = (size_t)glebe_live.stats.used_bytes + 4 * MIB;
    glebe_on_pressure(pressure, NULL);
    for (void **object; (object = glebe_gc_alloc(gc, bytes)) != NULL; taken += glebe_gc_usable_size(gc, object)) {
        *object = first;
        first = object;
    }
    assert_int_equal(kept_count, 0);
    assert_true(told > KEPT && taken > (size_t)KEPT * 3 * MIB);
    assert_int_equal(glebe_gc_check(gc, NULL, NULL), 0);
    gb_the.options.limit = 0;
    glebe_on_pressure(NULL, NULL);
    glebe_gc_destroy(gc);
    fixture_release();
}

static void test_tells(void **state)
{
    (void)state;
    fill(2000);
    fill(20000);
    fill(900000);
    fill(2 * MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(test_tells)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
