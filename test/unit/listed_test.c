/* listed.c: a double free is found on each list where the block may be, and a block in use is never
 * taken for a free one, whatever its bytes. */
#include "fixture.h"

enum { MANY = 600 };
static gb_block *blocks[MANY];

static gb_page *page_of(const void *block)
{
    return gb_page_head(gb_page_entry(block));
}

/* Fills pages beyond the mixed one. */
static void fill(void)
{
    for (int i = 0; i < MANY; i++)
        assert_non_null(blocks[i] = glebe_malloc(64));
}

static void free_twice(gb_block *block)
{
    uint64_t before = glebe_live.stats.errors;
    assert_true(gb_link_marked(block));
    glebe_free(block);
    assert_int_equal(glebe_live.stats.errors, before + 1);
    fixture_check();
}

static void test_double_frees(void **state)
{
    (void)state;
    if (!GB_MARKS_LINKS)
        skip();
    fill();
    gb_block *one = blocks[MANY - 20], *two = blocks[MANY - 21];
    glebe_free(one);
    free_twice(one); /* first on the page's list */
    glebe_free(two);
    free_twice(one); /* behind another */
    gb_block *again = glebe_malloc(64);
    while (again != one && again != two)
        again = glebe_malloc(64);
    free_twice(again == one ? two : one); /* on the thread free list */
    fixture_thread(1);
    assert_non_null(glebe_malloc(64));
    for (int i = 300; i < 310; i++)
        glebe_free(blocks[i]);
    free_twice(blocks[305]); /* borrowed, or in a slot */
    for (int i = 310; i < 500; i++)
        glebe_free(blocks[i]);
    free_twice(blocks[499]);
    gb_remote_flush(gb_self);
    fixture_thread(0);
    assert_true(GB_XFREE_COUNT(gb_load(&page_of(blocks[499])->xfree)) > 0);
    free_twice(blocks[499]); /* on the page's list of remote frees */
}

static void test_calls_with_free_blocks(void **state)
{
    (void)state;
    if (!GB_MARKS_LINKS)
        skip();
    fill();
    glebe_free(blocks[7]);
    assert_int_equal(glebe_usable_size(blocks[7]), 0);
    assert_null(glebe_realloc(blocks[7], 200));
    assert_int_equal(glebe_live.stats.errors, 2);
    fixture_check();
}

/* The program writes what links look like. */
static void test_blocks_in_use(void **state)
{
    (void)state;
    if (!GB_MARKS_LINKS)
        skip();
    fill();
    glebe_free(blocks[1]);
    glebe_free(blocks[2]);
    memset(blocks[3], GB_LINK_MARK, 64); /* the mark alone */
    memcpy(blocks[4], blocks[2], 64); /* a whole link */
    gb_link_set(blocks[5], NULL);
    gb_link_set(blocks[6], blocks[6]);
    gb_link_set(blocks[8], blocks[7]);
    for (int i = 3; i < 9; i++) {
        assert_true(i == 7 || gb_link_marked(blocks[i]));
        assert_int_equal(glebe_usable_size(blocks[i]), 64);
        glebe_free(blocks[i]);
    }
    assert_int_equal(glebe_live.stats.errors, 0);
    fixture_check();
}

/* malloc leaves no mark behind. */
static void test_new_blocks(void **state)
{
    (void)state;
    if (!GB_MARKS_LINKS)
        skip();
    for (size_t bytes = 1; bytes <= GB_SMALL_MAX; bytes += 7)
        for (int i = 0; i < 20; i++) {
            gb_block *block = glebe_malloc(bytes);
            assert_false(gb_link_marked(block));
            glebe_free(block);
            assert_true(gb_link_marked(block));
        }
    assert_int_equal(glebe_live.stats.errors, 0);
}

static bool looks_like_address(const void *link)
{
    uint64_t top = (uint64_t)(uintptr_t)link >> 47;
    return top == 0 || top == 0x1ffff || gb_page_entry(link);
}

/* Whatever address of a program is written over a link, what it decodes to is none. Also if only a part of the link was
 * overwritten, from its low end. Chance has a part: 17 bits of an address are always the same. */
static void test_forged_links(void **state)
{
    (void)state;
    if (!GB_MARKS_LINKS)
        skip();
    fill();
    gb_block *block = blocks[0];
    for (unsigned bit = 0; bit < 47; bit++) {
        block->words[0] = block->words[1] = (uintptr_t)1 << bit;
        assert_false(looks_like_address(gb_link_whole(block)));
    }
    static const uint64_t values[] = {0, 8, 0x1238, UINT64_C(0x4141414141414141), UINT64_MAX};
    for (unsigned bytes = 1; bytes < 8; bytes++)
        for (unsigned i = 0; i < sizeof values / sizeof *values; i++)
            for (int end = 0; end < 2; end++) {
                gb_link_set(block, end ? NULL : blocks[1]);
                uint64_t before = block->words[1];
                memcpy(&block->words[1], &values[i], bytes);
                assert_true(block->words[1] == before || !looks_like_address(gb_link_whole(block)));
            }
}

static int setup(void **state)
{
    (void)state;
    fixture_start(1);
    fixture_thread(0);
    return 0;
}

/* Blocks in use that look like the last of a list, as often as one likes, hide no block that is free. */
static void test_content_hides_nothing(void **state)
{
    (void)state;
    if (!GB_MARKS_LINKS)
        skip();
    fill();
    gb_page *page = page_of(blocks[MANY - 1]);
    gb_block *used = blocks[MANY - 1], *first = NULL;
    int count = 0;
    for (int i = 0; i < MANY - 1; i++)
        if (page_of(blocks[i]) == page) {
            first = first ? first : blocks[i];
            glebe_free(blocks[i]);
            count++;
        }
    assert_true(count > 40);
    assert_true(gb_block_listed(page, first)); /* the last on the list */
    memset(used, 0, sizeof *used);
    ((uint8_t *)used)[GB_MARK_AT] = GB_LINK_MARK;
    for (int i = 0; i < 20000; i++)
        assert_false(gb_block_listed(page, used));
    assert_true(gb_block_listed(page, first));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_double_frees, setup),
        cmocka_unit_test_setup(test_calls_with_free_blocks, setup),
        cmocka_unit_test_setup(test_blocks_in_use, setup),
        cmocka_unit_test_setup(test_new_blocks, setup),
        cmocka_unit_test_setup(test_forged_links, setup),
        cmocka_unit_test_setup(test_content_hides_nothing, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
