/* If a long is shorter than a pointer, as on Windows, an inline layout lost its words from the 32nd on, and objects
 * that those refer to were freed while in use. And layouts that differ only there shared four places among the
 * cursors. A mask or a count of words too long for an inline layout lost its upper bits, with the same result. */
#include "../unit/fixture.h"

enum { WORDS = GLEBE_GC_MASK_BITS, MOST_WORDS = (1 << GLEBE_GC_LAYOUT_BITS) - 1 };

static void test_each_word(void **state)
{
    (void)state;
    static void **root;
    glebe_gc *gc = glebe_gc_create(0);
    int own = 0;
    assert_int_equal(glebe_gc_root_add(gc, &root, sizeof root), 0);
    for (unsigned w = WORDS; w-- > 0;) {
        uintptr_t layout = GLEBE_GC_LAYOUT(WORDS, (uintptr_t)1 << w), start;
        for (size_t bytes = 0; bytes <= 5000; bytes += WORDS * sizeof *root) { /* until it has pages of its own */
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

/* In an object with a layout that does not fit, every word may be a reference. */
static void test_too_long(void **state)
{
    (void)state;
    static const uintptr_t layouts[] = {GLEBE_GC_LAYOUT(WORDS + 1, (uint64_t)1 << WORDS),
        GLEBE_GC_LAYOUT(MOST_WORDS, (uint64_t)1 << (MOST_WORDS - 1)), GLEBE_GC_LAYOUT(MOST_WORDS + 1, 1)};
    static void **root;
    glebe_gc *gc = glebe_gc_create(0);
    assert_int_equal(glebe_gc_root_add(gc, &root, sizeof root), 0);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        for (size_t w = 0; w < 2 * (size_t)MOST_WORDS; w++) {
            root = glebe_gc_alloc_layout(gc, 2 * MOST_WORDS * sizeof *root, layouts[i]);
            void *inner = root[w] = glebe_gc_alloc(gc, 32);
            glebe_gc_collect(gc);
            assert_true(glebe_gc_usable_size(gc, inner) >= 32);
        }
    assert_int_equal(glebe_gc_check(gc, NULL, NULL), 0);
    glebe_gc_destroy(gc);
    fixture_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(test_each_word), FIXTURE_TEST(test_too_long)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
