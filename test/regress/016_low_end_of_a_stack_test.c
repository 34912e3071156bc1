/* The low end of a scheduler's stack filled the mark stack before the collector noted the rest of the stack there,
 * which wrote one word past its end. */
#define GB_LINEAR 1
#define GB_STACKS 1
#include "../unit/fixture.h"

enum { REFERENCES = 40, BYTES = 64 << 10 };

static void test_low_end_fills_the_mark_stack(void **state)
{
    (void)state;
    glebe_gc *gc = glebe_gc_create(0);
    gb_stack *record = glebe_gc_alloc(gc, sizeof *record);
    uintptr_t *stack = glebe_gc_alloc(gc, BYTES), root = (uintptr_t)record;
    assert_int_equal(glebe_gc_root_add(gc, &root, sizeof root), 0);
    void *held[REFERENCES];
    for (int i = 0; i < REFERENCES; i++)
        stack[1 + i] = (uintptr_t)(held[i] = glebe_gc_alloc(gc, 24));
    record->start = (uintptr_t)stack;
    record->low = (uintptr_t)(stack + 1 + REFERENCES);
    record->high = (uintptr_t)stack + BYTES / 2;
    gb_stack_runs(gc, record);
    gb_sweep_begin(gc);
    gb_mark_begin(gc);
    gb_mark_range(gc, (uintptr_t)&root, (uintptr_t)(&root + 1));
    assert_int_equal(gc->waiting.n, 0); /* the word behind the stack */
    for (int i = 0; i < REFERENCES; i++)
        assert_true(gb_object_marked(gc, (uintptr_t)held[i]));
    glebe_gc_finish(gc);
    glebe_gc_destroy(gc);
    fixture_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(test_low_end_fills_the_mark_stack)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
