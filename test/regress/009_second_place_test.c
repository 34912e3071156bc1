/* With limited address space, two copies of glebe in one process (one preloaded, one inside a plugin) chose the same
 * place, and the second had no memory at all. The host now proposes other places; if all fail, glebe reserves address
 * space. */
#include "../unit/fixture.h"

static void test_first_place_taken(void **state)
{
    (void)state;
    fake.address_bytes = (size_t)1 << 28;
    fake.taken_from = fake_start;
    fake.taken_to = fake_start + ((size_t)1 << 20);
    void *p = glebe_malloc(1000);
    assert_non_null(p);
    assert_false(gb_the.reserved);
    assert_true((uintptr_t)gb_the.table >= fake_start + FAKE_SECOND_PLACE);
    glebe_free(p);
    if (sizeof(void *) == 8) { /* the 32-bit fake host has less memory than this place */
        void *q = glebe_malloc((size_t)20 << 20);
        assert_non_null(q);
        glebe_free(q);
    }
    fixture_release();
}

static void test_no_place(void **state)
{
    (void)state;
    if (sizeof(void *) != 8)
        return;
    fake.address_bytes = (size_t)1 << 28;
    fake.taken_from = fake_start;
    fake.taken_to = fake_start + FAKE_BYTES;
    void *p = glebe_malloc(1000);
    assert_non_null(p);
    assert_true(gb_the.reserved);
    glebe_free(p);
    fixture_release();
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(test_first_place_taken), FIXTURE_TEST(test_no_place)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
