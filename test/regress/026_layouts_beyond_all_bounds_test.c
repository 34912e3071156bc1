/* An element of 2^61 words has 0 bytes in 64-bit arithmetic, and large objects were divided by that. An element of 0
 * words kept nothing alive. */
#include "../unit/fixture.h"

static void test_words(void **state)
{
    (void)state;
    static const struct layout { uintptr_t words; uint8_t bits[9]; } layouts[] = {
        {0, {0}}, {1, {1}}, {2, {3}}, {70, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},
    };
    static struct { uintptr_t words; uint8_t bits[((size_t)3 << 20) / sizeof(void *) / 8 + 1]; } great;
    const size_t sizes[] = {64, 2048, 5000, 300000, (size_t)2 << 20};
    glebe_gc *gc = glebe_gc_create(0);
    void *root = NULL;
    glebe_gc_root_add(gc, &root, sizeof root);
    memset(great.bits, 0xff, sizeof great.bits);
    for (unsigned log2 = 0; log2 < 8 * sizeof(uintptr_t) + 4; log2++)
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            great.words = log2 < 8 * sizeof(uintptr_t) ? (uintptr_t)1 << log2
                : log2 % 2 ? UINTPTR_MAX
                : UINTPTR_MAX / sizeof(void *) + log2 % 4;
            size_t index = log2 % 4;
            const void *layout = log2 % 8 < 4 ? (const void *)&great : (const void *)&layouts[index];
            size_t words = sizes[s] / sizeof(void *);
            for (size_t bytes = 0; bytes <= 5000; bytes += sizes[s]) { /* until it has pages of its own */
                void **object = root = glebe_gc_alloc_layout(gc, sizes[s], (uintptr_t)layout);
                object[words - 1] = glebe_gc_alloc(gc, 32);
                if (sizes[s] > 2048)
                    break;
            }
            void **object = root;
            glebe_gc_collect(gc);
            assert_true(glebe_gc_usable_size(gc, object[words - 1]) >= 32);
            root = NULL;
            glebe_gc_collect(gc);
        }
    assert_int_equal(glebe_gc_check(gc, NULL, NULL), 0);
    glebe_gc_destroy(gc);
    fixture_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(test_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
