/* Marking reads two words at once. Each word of a range counts, wherever the range begins and however long it is: of
 * roots, and of the two saved parts of a scheduler's stack. */
#define GB_LINEAR 1
#define GB_STACKS 1
#include "fixture.h"

enum { WORDS = 9, STACK_BYTES = 16 << 10 };

static glebe_gc *gc;

static int start(void **state)
{
    fixture_setup(state);
    gc = glebe_gc_create(0);
    return gc ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    glebe_gc_destroy(gc);
    fixture_release();
    return 0;
}

/* Returns whether the object that `word` alone refers to is reached from [from, to). */
static bool reached(uintptr_t *word, uintptr_t *from, uintptr_t *to)
{
    uintptr_t object = *word = (uintptr_t)glebe_gc_alloc(gc, 16);
    glebe_gc_begin(gc);
    glebe_gc_mark(gc, from, to);
    bool marked = gb_object_marked(gc, object);
    glebe_gc_finish(gc);
    *word = 0;
    return marked;
}

static void test_roots(void **state)
{
    (void)state;
    uintptr_t roots[WORDS] = {0};
    for (int from = 0; from < WORDS; from++)
        for (int to = from + 1; to <= WORDS; to++)
            for (int at = 0; at < WORDS; at++)
                assert_int_equal(reached(roots + at, roots + from, roots + to), at >= from && at < to);
}

/* A stack that waits has [start, low) and [high, end); its length is even, so both parts may have an odd word. */
static void test_stacks(void **state)
{
    (void)state;
    gb_stack *record = glebe_gc_alloc(gc, sizeof *record);
    uintptr_t *stack = glebe_gc_alloc(gc, STACK_BYTES), root = (uintptr_t)record;
    assert_int_equal(glebe_gc_root_add(gc, &root, sizeof root), 0);
    int words = STACK_BYTES / sizeof *stack;
    for (int low = 2; low < 2 + WORDS; low++)
        for (int saved = 1; saved < WORDS; saved++) {
            int high = words - saved;
            *record = (gb_stack){(uintptr_t)(stack + low), (uintptr_t)(stack + high), (uintptr_t)stack};
            gb_stack_runs(gc, record);
            for (int at = 0; at < words; at = at == low ? high - 1 : at + 1)
                assert_int_equal(reached(stack + at, &root, &root + 1), at < low || at >= high);
        }
    assert_int_equal(glebe_gc_root_remove(gc, &root), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_roots, start, end),
        cmocka_unit_test_setup_teardown(test_stacks, start, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
