/* With limited address space, other code may map the place of a chunk. glebe_check then reported invariant 1 for each
 * of the chunk's slices: it did not know the kind of their run. */
#include "../unit/fixture.h"

static void test_taken_chunks_are_well(void **state)
{
    (void)state;
    fake.address_bytes = (size_t)64 << 20;
    assert_non_null(glebe_malloc(1000));
    fake.taken_from = gb_the.base + GB_CHUNK_BYTES;
    fake.taken_to = fake.taken_from + GB_CHUNK_BYTES;
    for (int i = 0; i < 4; i++)
        assert_non_null(glebe_malloc(1000000));
    assert_int_equal(gb_entry_at(GB_CHUNK_SLICES)->kind, GB_RESERVED);
    fixture_check();
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(test_taken_chunks_are_well)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
