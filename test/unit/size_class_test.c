/* Size classes, by brute force: the generator's promises are checked for every size, every alignment and every offset
 * of every page that can exist. */
#include "fixture.h"

enum { FLAT_MAX = GB_LINEAR ? 256 : 2048 }; /* blocks so small that any page will do */
#define MOST (GB_MEDIUM_MAX + GB_TAIL_BYTES) /* what a class serves; in the secure build with the tail */

static void test_smallest_fitting_class(void **state)
{
    (void)state;
    uint32_t best = 0, words = 0;
    for (size_t bytes = 0; bytes <= MOST; bytes++) {
        while (gb_classes[best].bytes < bytes || gb_classes[best].bytes % 16 != 0)
            best++;
        assert_int_equal(gb_class_of(bytes), best);
        while (words < best && gb_classes[words].bytes < bytes)
            words++;
        if (bytes <= GB_SMALL_MAX)
            assert_int_equal(gb_class_of_words(bytes), words);
        if (bytes <= GB_OBJECT_MAX)
            assert_int_equal(gb_class_of_small(bytes), bytes ? best : GB_ZERO_CLASS);
        if (bytes > GB_OBJECT_MAX)
            assert_int_equal(gb_class_of_medium(bytes), best);
    }
    assert_int_equal(best, GB_CLASSES - 1);
}

static void test_table_is_in_order(void **state)
{
    (void)state;
    for (uint32_t cls = 0; cls < GB_CLASSES; cls++) {
        size_t bytes = gb_classes[cls].bytes;
        assert_true(cls == 0 || gb_classes[cls - 1].bytes < bytes);
        assert_int_equal(bytes % (!GB_LINEAR && bytes < 64 ? 8 : 16), 0);
        assert_int_equal(gb_ctz64(bytes), gb_classes[cls].shift);
        assert_int_equal(gb_class_is_small(cls), bytes <= GB_SMALL_MAX);
        bool flat = bytes <= FLAT_MAX;
        size_t first = (size_t)gb_classes[cls].first_slices << GB_SLICE_LOG2,
            page = (size_t)gb_classes[cls].slices << GB_SLICE_LOG2;
        assert_true(first <= page);
        assert_in_range(first / bytes, flat ? 8 : 1, flat || GB_LINEAR ? 1024 : 32);
        assert_in_range(first % bytes, 0, first / 5); /* the bytes that a page cannot use */
        assert_in_range(page / bytes, flat ? 32 : 4, flat ? 4096 : GB_LINEAR ? 256 : 32);
        assert_in_range(page % bytes, 0, page / 32);
        if (flat)
            assert_int_equal(gb_classes[cls].slices, GB_BIG_PAGE_SLICES);
    }
}

/* For pages of every slice count in use: a larger page has the offsets of a smaller one. */
static void test_index_of_every_offset(void **state)
{
    (void)state;
    for (uint32_t cls = 0; cls < GB_CLASSES; cls++) {
        size_t bytes = gb_classes[cls].bytes;
        size_t page = (size_t)gb_classes[cls].slices << GB_SLICE_LOG2, index = 0, end = bytes;
        for (size_t offset = 0; offset < page; offset++) {
            if (offset == end) {
                index++;
                end += bytes;
            }
            if (gb_class_index(cls, offset) != index)
                fail_msg("class %u of %zu bytes: offset %zu gives block %u, not %zu", cls, bytes, offset,
                    gb_class_index(cls, offset), index);
        }
    }
}

/* Collected objects are found by one product; only the first kind of page is used for them. */
static void test_index_of_every_object(void **state)
{
    (void)state;
    for (uint32_t cls = 0; cls < GB_COLLECTED_CLASSES; cls++) {
        gb_page page = {.step = fixture_collected_step(cls)};
        page.magic = (uint32_t)((((uint64_t)1 << 32) + page.step - 1) / page.step);
        size_t bytes = (size_t)(cls < GB_OBJECT_CLASSES ? gb_classes[cls].first_slices : 1) << GB_SLICE_LOG2;
        for (size_t offset = 0; offset < bytes; offset++)
            if (gb_object_index(&page, offset) != offset / page.step)
                fail_msg("objects of %u bytes: offset %zu gives %u", page.step, offset, gb_object_index(&page, offset));
    }
}

static void test_aligned_classes(void **state)
{
    (void)state;
    for (size_t alignment = 16; alignment <= GB_SLICE_BYTES; alignment *= 2)
        for (size_t bytes = 0; bytes <= MOST + 16; bytes++) {
            uint32_t best = 0; /* the smallest class that is a multiple of the alignment and large enough */
            uint32_t got = gb_class_of_aligned(bytes, alignment);
            if (got < GB_CLASSES) {
                assert_true(gb_classes[got].bytes >= bytes);
                assert_int_equal(gb_classes[got].bytes % alignment, 0);
            }
            if (bytes % 61 != 0 && got < GB_CLASSES) /* the smallest of these; of others only some sizes */
                continue;
            while (best < GB_CLASSES && (gb_classes[best].bytes < bytes || gb_classes[best].bytes % alignment != 0))
                best++;
            assert_int_equal(got, bytes <= MOST ? best : GB_CLASSES);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_smallest_fitting_class),
        FIXTURE_TEST(test_table_is_in_order),
        FIXTURE_TEST(test_index_of_every_offset),
        FIXTURE_TEST(test_index_of_every_object),
        FIXTURE_TEST(test_aligned_classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
