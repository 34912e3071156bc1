/* glebe_gc_check read the count of collectors while other threads made and destroyed theirs: a data race, which
 * ThreadSanitizer reports. */
#include "glebe.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { ROUNDS = 200 };

static _Atomic int rounds;

static void *others_run(void *context)
{
    while (atomic_load(&rounds) < ROUNDS) {
        glebe_gc *gc = glebe_gc_create(0);
        if (!gc || !glebe_gc_alloc(gc, 100))
            return context;
        glebe_gc_destroy(gc);
    }
    return NULL;
}

static void test_checked(void **state)
{
    (void)state;
    pthread_t thread;
    void *failed;
    glebe_gc *alone = glebe_gc_create(0), *gc = glebe_gc_create(0);
    assert_int_equal(pthread_create(&thread, NULL, others_run, alone), 0);
    for (; atomic_load(&rounds) < ROUNDS; atomic_fetch_add(&rounds, 1)) {
        assert_non_null(glebe_gc_alloc(gc, 100));
        assert_int_equal(glebe_gc_check(gc, NULL, NULL), 0);
    }
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    glebe_gc_destroy(gc);
    glebe_gc_destroy(alone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_checked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
