/* If a long is shorter than a pointer, as on Windows, an inline layout lost its words from the 32nd on, and objects
 * that those refer to were freed while in use. And layouts that differ only there shared four places among the
 * cursors. */
#include "../unit/fixture.h"

enum { WORDS = 8 * sizeof(uintptr_t) - 1 - GLEBE_GC_LAYOUT_BITS };

static void test_each_word(void **state)
{
    (void)state;
    static void **root;
    glebe_gc *gc = glebe_gc_create(0);
    int own = 0;
    assert_int_equal(glebe_gc_root_add(gc, &root, sizeof root), 0);
    for (unsigned w = WORDS; w-- > 0;) {
        uintptr_t layout = GLEBE_GC_LAYOUT(WORDS, (uintptr_t)1 << w), start;
        for (int i = 0; i < 20; i++) { /* until it has pages of its own */
            root = glebe_gc_alloc_layout(gc, WORDS * sizeof *root, layout);
            root[w] = glebe_gc_alloc(gc, 32);
        }
        own += gb_object_at(gc, (uintptr_t)root, &start)->layout == layout;
        void *inner = root[w];
        glebe_gc_collect(gc);
        assert_true(glebe_gc_usable_size(gc, inner) >= 32);
        root[(w + 1) % WORDS] = inner;
        root[w] = NULL;
        glebe_gc_collect(gc);
        if (gb_object_at(gc, (uintptr_t)root, &start)->layout == layout)
            assert_int_equal(glebe_gc_usable_size(gc, inner), 0);
    }
    assert_true(own > (int)WORDS / 2);
    assert_int_equal(glebe_gc_check(gc, NULL, NULL), 0);
    glebe_gc_destroy(gc);
    fixture_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(test_each_word)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
