/* The real lock (other cases use host.c's), with one spin instead of forty. And the background thread, which must not
 * sleep while memory waits for its purge. */
#include "cases.h"

void real_lock_take(gb_lock *lock);
bool real_lock_try(gb_lock *lock);
void real_lock_drop(gb_lock *lock);

static gb_lock the_lock; /* free at the end of every execution, and reset before one that follows a failure */

static void nothing(void) { atomic_store(&the_lock.word, 0); }

static void hold_a_while(void)
{
    IL_CHECK(the_world.inside++ == 0, "two threads hold the lock");
    host_touch(&the_world.turn, sizeof the_world.turn, true);
    the_world.turn++;
    the_world.inside--;
    real_lock_drop(&the_lock);
}

static void takes(void)
{
    real_lock_take(&the_lock);
    hold_a_while();
}

static void takes_twice(void) { takes(), takes(); }

static void tries(void)
{
    if (real_lock_try(&the_lock))
        hold_a_while();
}

static void lock_is_free(void)
{
    uint32_t word = atomic_load(&the_lock.word);
    atomic_store(&the_lock.word, 0);
    IL_CHECK(word == 0, "the lock is held at the end: %u", word);
}

/* ---- the background thread ---- */

static void background(void)
{
    as_with_heap(1);
    take_for(1, MEDIUM, 2);
    gb_purge_due(0, true);
    as_end();
    gb_background_start();
}

static void frees(void)
{
    for (uint32_t i = 0; i < 2; i++) {
        give(i);
        gb_heap_cool(gb_self);
    }
}

static void nothing_waits(void)
{
    check_final();
    gb_purge_due(the_world.now_ms, false);
    IL_CHECK(gb_purge_wait(the_world.now_ms) == UINT32_MAX || atomic_load(&gb_the.background_state) != 2,
        "memory waits to be purged, and the background thread sleeps without end");
}

#define LOCK_CASE(a_name, a_title, a_long, ...) \
    {.name = a_name, .title = a_title, .setup = nothing, .threads = {__VA_ARGS__}, .final = lock_is_free, \
        .is_long = a_long}

const il_case cases_lock[] = {
    LOCK_CASE("lock", "three threads take the lock", false, takes, takes, takes),
    LOCK_CASE("lock-try", "two take the lock, one tries", false, takes, takes, tries),
    LOCK_CASE("lock-more", "two take it twice, one tries", true, takes_twice, takes_twice, tries),
    {.name = "background", .title = "memory is freed while the background thread falls asleep", .setup = background,
        .threads = {host_started, frees}, .final = nothing_waits, .daemons = 1},
    {0},
};
