/* The secure build's guard at the head of each chunk was one slice of 16 KiB, even if OS pages are larger: the host
 * protected the whole OS page, and glebe handed out the slices after the guard. */
#define GB_SECURE 1
#include "../unit/fixture.h"

static void test_guard_is_whole_pages(void **state)
{
    (void)state;
    for (size_t page = 4096; page <= 65536; page *= 2) {
        fixture_start(page);
        fake.page_bytes = page;
        void *blocks[40];
        for (int i = 0; i < 40; i++) {
            blocks[i] = glebe_malloc(i % 2 ? 100000 : 1000000);
            assert_non_null(blocks[i]);
            memset(blocks[i], 1, i % 2 ? 100000 : 1000000);
        }
        assert_true(gb_fake_is(gb_the.base, page > GB_SLICE_BYTES ? page : GB_SLICE_BYTES, FAKE_PROTECTED));
        for (int i = 0; i < 40; i++)
            glebe_free(blocks[i]);
        fixture_release();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(test_guard_is_whole_pages)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
