/* fork's child handler started the background thread, so system calls that require a process of one thread failed in
 * the child. Now a tick in the child starts it. The thread has its own heap, since the tick runs inside a malloc. */
#include "../unit/fixture.h"

static void forks(void)
{
    gb_fork_prepare();
    fake.thread = NULL;
    gb_fork_child();
    assert_null(fake.thread);
}

static void tick(void)
{
    fake.now_ms += 10;
    gb_tick_due(gb_self);
}

static void test_it_starts_with_a_tick(void **state)
{
    (void)state;
    assert_int_equal(glebe_option("background", "1"), 0);
    void *p = glebe_malloc(1000);
    forks();
    glebe_free(p);
    assert_null(fake.thread);
    for (int i = 0; i < 20000 && !fake.thread; i++) {
        fake.now_ms++;
        assert_non_null(glebe_malloc(1000));
    }
    assert_non_null(fake.thread);
    fake.thread = NULL;
    tick();
    assert_null(fake.thread); /* only once */
    fixture_check();
}

static void test_not_where_nobody_asked(void **state)
{
    (void)state;
    assert_non_null(glebe_malloc(1000));
    forks();
    tick();
    assert_null(fake.thread);
}

/* If the thread could not be started, not every tick tries again. */
static void test_where_it_fails(void **state)
{
    (void)state;
    glebe_option("background", "1");
    assert_non_null(glebe_malloc(GB_BACKGROUND_FROM));
    forks();
    gb_fake_fail(1u << GB_FAKE_THREAD_START, 1, 1);
    tick();
    tick();
    assert_null(fake.thread);
    assert_int_equal(glebe_option("background", "1"), 0);
    assert_non_null(fake.thread);
}

static void forks_and_works(void *context, uint64_t used, uint64_t limit)
{
    (void)context;
    (void)used;
    (void)limit;
    forks();
    assert_non_null(glebe_malloc(100));
    tick();
}

/* The callback's thread has left its heap already: it starts with a later tick. */
static void test_in_the_callback(void **state)
{
    (void)state;
    glebe_option("background", "1");
    glebe_option("limit", "4M");
    glebe_on_pressure(forks_and_works, NULL);
    void *kept = glebe_malloc(2200000);
    assert_null(glebe_malloc(3000000));
    assert_null(fake.thread);
    assert_int_equal(gb_self->kind, GB_HEAP_THREAD);
    tick();
    assert_non_null(fake.thread);
    glebe_free(kept);
    fixture_check();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_it_starts_with_a_tick),
        FIXTURE_TEST(test_not_where_nobody_asked),
        FIXTURE_TEST(test_where_it_fails),
        FIXTURE_TEST(test_in_the_callback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
