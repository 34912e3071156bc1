/* A scheduler's record has the end address of its stack. The large object or page of objects that begins at that
 * address was kept as long as the stack. */
#define GB_LINEAR 1
#define GB_STACKS 1
#include "../unit/fixture.h"

enum { NEIGHBOURS = 40 };

static void test_end_keeps_no_neighbour(void **state)
{
    (void)state;
    glebe_gc *gc = glebe_gc_create(0);
    glebe_gc_pace(gc, 0, SIZE_MAX, 0);
    struct {
        gb_stack in_use;
        uintptr_t top;
    } *records[NEIGHBOURS] = {0};
    assert_int_equal(glebe_gc_root_add(gc, records, sizeof records), 0);
    for (size_t i = 0; i < NEIGHBOURS; i++) {
        records[i] = glebe_gc_alloc(gc, sizeof *records[i]);
        size_t bytes = GB_SLICE_BYTES * (1 + i % 4), usable;
        uintptr_t start = (uintptr_t)glebe_gc_alloc(gc, bytes), end = start + bytes;
        records[i]->in_use = (gb_stack){start + sizeof start, end, start};
        records[i]->top = end;
        assert_int_equal(glebe_gc_usable_size(gc, (void *)start), bytes);
        assert_int_equal(gb_object_bounds(gc, end, &usable), start);
        gb_stack_runs(gc, &records[i]->in_use);
        assert_non_null(glebe_gc_alloc(gc, i % 2 ? 3000 : GB_SLICE_BYTES));
    }
    fixture_check();
    assert_int_equal(glebe_gc_check(gc, NULL, NULL), 0);
    glebe_gc_collect(gc);
    assert_int_equal(gc->stats.freed_objects, NEIGHBOURS);
    memset(records, 0, sizeof records);
    glebe_gc_collect(gc);
    assert_int_equal(gc->stats.freed_objects, 3 * NEIGHBOURS);
    assert_int_equal(gc->heap->collected_bytes, 0);
    glebe_gc_destroy(gc);
    fixture_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(test_end_keeps_no_neighbour)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
