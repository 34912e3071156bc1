/* The callback of memory pressure runs inside an allocation. If it used the collector that allocated, an object of over
 * 1 MiB took the table entry that the outer allocation had reserved, and that wrote past the table's end. */
#include "../unit/fixture.h"

enum { ROOM = 16, MIB = 1 << 20 };

static glebe_gc *gc;
static void *roots[ROOM + 2], *kept, *weak[100];
static int told;

static void pressure(void *context, uint64_t used, uint64_t limit)
{
    (void)context;
    assert_true(used <= limit);
    if (told++)
        return;
    glebe_gc_collect(gc);
    glebe_free(kept);
    kept = NULL;
    roots[ROOM] = glebe_gc_alloc(gc, 2 * MIB);
    assert_non_null(roots[ROOM]);
    for (int i = 0; i < 100; i++)
        assert_int_equal(glebe_gc_weak_add(gc, &weak[i]), 0);
    glebe_gc_collect(gc);
}

static void test_callback_allocates(void **state)
{
    (void)state;
    gc = glebe_gc_create(0);
    assert_int_equal(glebe_gc_root_add(gc, roots, sizeof roots), 0);
    glebe_gc_pace(gc, 100, 512 * MIB, 0);
    for (int i = 0; i < ROOM - 1; i++)
        roots[i] = glebe_gc_alloc(gc, 2 * MIB);
    assert_int_equal(gc->huge.room, ROOM);
    kept = glebe_malloc(8 * MIB);
    gb_the.options.limit = (size_t)glebe_live.stats.used_bytes + MIB;
    glebe_on_pressure(pressure, NULL);
    roots[ROOM + 1] = glebe_gc_alloc(gc, 2 * MIB);
    assert_non_null(roots[ROOM + 1]);
    assert_int_equal(told, 1);
    assert_int_equal(gc->huge.count, ROOM + 1);
    for (int i = 0; i < ROOM - 1; i++)
        assert_true(glebe_gc_usable_size(gc, roots[i]) >= 2 * MIB);
    assert_true(glebe_gc_usable_size(gc, roots[ROOM]) >= 2 * MIB
        && glebe_gc_usable_size(gc, roots[ROOM + 1]) >= 2 * MIB);
    assert_int_equal(glebe_gc_check(gc, NULL, NULL), 0);
    gb_the.options.limit = 0;
    glebe_on_pressure(NULL, NULL);
    glebe_gc_destroy(gc);
    fixture_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(test_callback_allocates)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
