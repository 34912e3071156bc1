/* The names of errors are those that strerror gives without a locale, and it has one for each number here. */
#include "../../src/debug/errors.h"
#include "fixture.h"

#include <string.h>

static void test_names_are_those_of_the_system(void **state)
{
    (void)state;
    unsigned named = 0;
    const char *none = gb_error_text(-1);
    for (int error = 1; error < 134; error++) {
        const char *name = gb_error_text(error);
        if (strcmp(name, none) == 0)
            continue;
        named++;
#ifdef __GLIBC__
        assert_string_equal(name, strerror(error));
#endif
    }
    assert_true(named >= 24);
    assert_string_equal(gb_error_text(EMFILE), "Too many open files");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_are_those_of_the_system),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
