/* Replaces the parts of cmocka that the unit tests use: an assertion that fails prints its line and ends the
 * program. */
#ifndef CMOCKA_STANDS_IN_H
#define CMOCKA_STANDS_IN_H

#include <stdio.h>
#include <stdlib.h>

#define fail() (printf("%s:%d: failed\n", __FILE__, __LINE__), exit(1))
#define skip() return
#define assert_true(c) ((c) ? (void)0 : (printf("%s:%d: %s\n", __FILE__, __LINE__, #c), exit(1)))
#define assert_false(c) assert_true(!(c))
#define assert_null(p) assert_true((p) == NULL)
#define assert_non_null(p) assert_true((p) != NULL)
#define assert_int_equal(a, b) assert_true((unsigned long long)(a) == (unsigned long long)(b))
#define assert_ptr_equal(a, b) assert_true((const void *)(a) == (const void *)(b))
#define assert_in_range(a, least, most) \
    assert_true((unsigned long long)(a) >= (least) && (unsigned long long)(a) <= (most))

struct CMUnitTest {
    const char *name;
    void (*test)(void **state);
    int (*setup)(void **state);
    int (*teardown)(void **state);
};
#define cmocka_unit_test(f) {#f, f, NULL, NULL}
#define cmocka_unit_test_setup(f, setup) {#f, f, setup, NULL}
#define cmocka_unit_test_setup_teardown(f, setup, teardown) {#f, f, setup, teardown}
#define cmocka_run_group_tests(tests, setup, teardown) stand_in_run(tests, (int)(sizeof(tests) / sizeof(tests)[0]))

static inline int stand_in_run(const struct CMUnitTest *tests, int count)
{
    for (int i = 0; i < count; i++) {
        void *state = NULL;
        if (tests[i].setup && tests[i].setup(&state) != 0)
            fail();
        tests[i].test(&state);
        if (tests[i].teardown && tests[i].teardown(&state) != 0)
            fail();
    }
    printf("%d tests\n", count);
    return 0;
}

#endif
