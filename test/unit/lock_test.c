/* The lock: its three states, which thread sleeps, and which is woken; then real threads that count together. */
#include "fixture.h"

#include <pthread.h>
#include <time.h>

static gb_lock lock;

static void test_words(void **state)
{
    (void)state;
    memset(&lock, 0, sizeof lock);
    gb_lock_take(&lock);
    assert_int_equal(gb_load(&lock.word), 1);
    assert_false(gb_lock_try(&lock));
    gb_lock_drop(&lock);
    assert_int_equal(gb_load(&lock.word), 0);
    assert_true(gb_lock_try(&lock));
    gb_lock_drop(&lock);
    assert_int_equal(fake.waits, 0);
    assert_int_equal(fake.wakes, 0);
}

static void drop_for_another(_Atomic uint32_t *word, uint32_t expected, uint32_t ms)
{
    assert_ptr_equal(word, &lock.word);
    assert_int_equal(expected, 2);
    assert_int_equal(ms, UINT32_MAX);
    if (fake.waits == 3)
        gb_lock_drop(&lock); /* the holder; the first wake-ups had no effect */
}

static void test_contention(void **state)
{
    (void)state;
    memset(&lock, 0, sizeof lock);
    gb_lock_take(&lock);
    fake.on_wait = drop_for_another;
    gb_lock_take(&lock);
    assert_int_equal(fake.waits, 3);
    assert_int_equal(fake.wakes, 1);
    /* other threads may sleep: a thread that took it after a wait cannot know */
    assert_int_equal(gb_load(&lock.word), 2);
    gb_lock_drop(&lock);
    assert_int_equal(fake.wakes, 2);
    assert_int_equal(gb_load(&lock.word), 0);
}

static long counter;

static void let_others_run(_Atomic uint32_t *word, uint32_t expected, uint32_t ms)
{
    (void)word;
    (void)expected;
    (void)ms;
    struct timespec t = {0, 1000};
    nanosleep(&t, NULL);
}

static void *count(void *unused)
{
    for (int i = 0; i < 20000; i++) {
        gb_lock_take(&lock);
        counter++;
        gb_lock_drop(&lock);
    }
    return unused;
}

static void test_excludes(void **state)
{
    (void)state;
    pthread_t threads[3];
    memset(&lock, 0, sizeof lock);
    counter = 0;
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count, NULL), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(counter, 60000);
    assert_int_equal(gb_load(&lock.word), 0);
}

/* The system ended the lock's holder: the next thread takes the lock without sleeping. */
static void test_the_holder_is_gone(void **state)
{
    (void)state;
    memset(&lock, 0, sizeof lock);
    gb_lock_take(&lock);
    fake.alone = true;
    gb_lock_take(&lock);
    assert_int_equal(gb_load(&fake.waits), 0);
    gb_lock_drop(&lock);
    assert_int_equal(gb_load(&lock.word), 0);
}

static int setup_threads(void **state)
{
    fixture_setup(state);
    fake.on_wait = let_others_run;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_words),
        FIXTURE_TEST(test_contention),
        FIXTURE_TEST(test_the_holder_is_gone),
        cmocka_unit_test_setup(test_excludes, setup_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
