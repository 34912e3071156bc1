/* The engine's own test. Toys, whose number of orders and outcomes is known; mistakes that must be found; and a
 * comparison with all orders, which shows that the reduction loses no outcome. Compiled like the subject, so that its
 * accesses are traced. */
#include <stdio.h>

#include "cases.h"

#define T the_world.toy
#define A(i) ((_Atomic uint64_t *)&the_world.toy[i])

static int failed;

static void setup(void) {}

static void expect(const char *what, bool good, const il_result *r)
{
    if (!good)
        failed++;
    printf("  %-4s %-64s %7llu orders %5llu states  %.60s\n", good ? "ok" : "BAD", what,
        (unsigned long long)r->executions, (unsigned long long)r->states, r->failure);
}

/* Explores with and without reduction: both reach the same states; `orders` of them reduced (0: any number). */
static void same(const char *what, const il_case *c, uint64_t orders, uint64_t states)
{
    il_result r = il_explore(c, c->failures, UINT64_MAX, false);
    il_reduce = false;
    il_result all = il_explore(c, c->failures, UINT64_MAX, false);
    il_reduce = true;
    bool good = r.complete && all.complete && r.states == all.states && r.digest == all.digest;
    expect(what, good && (!orders || r.executions == orders) && (!states || r.states == states), &r);
    printf("       %64s %9llu without reduction\n", "", (unsigned long long)all.executions);
}

static void finds(const char *what, const il_case *c, int failures, const char *message)
{
    il_result r = il_explore(c, failures, UINT64_MAX, false);
    expect(what, message ? strstr(r.failure, message) != NULL : r.complete && !r.failure[0], &r);
}

/* ---- toys ---- */

static void store_1(void) { gb_store(A(0), 1); }
static void store_2(void) { gb_store(A(0), 2); }
static void store_3(void) { gb_store(A(0), 3); }
static void own_1(void) { gb_add(A(1), 1), gb_add(A(1), 1); }
static void own_2(void) { gb_add(A(2), 1), gb_add(A(2), 1); }
static void own_3(void) { gb_add(A(3), 1), gb_add(A(3), 1); }
static void read_to_4(void) { T[4] = gb_load(A(0)); }
static void read_to_5(void) { T[5] = gb_load(A(0)); }
static void buffer_1(void) { gb_store(A(0), 1), T[4] = gb_load(A(1)); }
static void buffer_2(void) { gb_store(A(1), 1), T[5] = gb_load(A(0)); }
static void increment(void) { gb_add(A(0), 1); }
static void increment_in_two(void) { gb_store(A(0), gb_load(A(0)) + 1); }
static void is_2(void) { IL_CHECK(T[0] == 2, "an increment is lost"); }
static void forever(void)
{
    while (gb_load(A(0)) == 0)
        continue;
}

static void once_weak(void)
{
    uint64_t old = 0;
    bool done = gb_cas(A(0), &old, 2);
    IL_CHECK(done, "failed for no reason");
}

/* A message handed over by a flag. */
static void say(void) { T[6] = 7, gb_store(A(0), 1); }
static void say_relaxed(void) { T[6] = 7, gb_store_relaxed(A(0), 1); }
static void hear(void) { T[4] = gb_load(A(0)) ? T[6] : 0; }
static void hear_relaxed(void) { T[4] = gb_load_relaxed(A(0)) ? T[6] : 0; }

static gb_lock lock_1, lock_2;
static void no_locks(void) { lock_1.word = lock_2.word = 0; }
static void one_two(void)
{
    gb_lock_take(&lock_1), gb_lock_take(&lock_2);
    T[0] = T[0] * 2 + 1;
    gb_lock_drop(&lock_2), gb_lock_drop(&lock_1);
}
static void two_one(void)
{
    gb_lock_take(&lock_2), gb_lock_take(&lock_1);
    gb_lock_drop(&lock_1), gb_lock_drop(&lock_2);
}
static void try_one(void)
{
    if (gb_lock_try(&lock_1)) {
        T[0] = T[0] * 2;
        gb_lock_drop(&lock_1);
    } else
        T[4]++;
}
static void with_lock(void)
{
    gb_lock_take(&lock_1);
    T[0] = T[0] * 3 + 1;
    gb_lock_drop(&lock_1);
    gb_add(A(1), 1);
}
static void with_lock_2(void)
{
    gb_add(A(2), gb_load(A(1)));
    gb_lock_take(&lock_1);
    T[0] = T[0] * 5;
    gb_lock_drop(&lock_1);
}

/* Thread C ends the others in the middle of what they do. */
static void end_others(void) { T[4] = gb_load(A(0)), gb_add(A(3), 1), il_vanish(), T[5] = gb_load(A(1)) + T[6]; }
static void steps_1(void) { gb_add(A(0), 1), T[6]++, gb_add(A(1), 1), gb_add(A(0), 2); }
static void steps_2(void) { gb_add(A(1), gb_load(A(0)) + 5), gb_add(A(3), 7); }
static void lock_and_vanish(void)
{
    gb_lock_take(&lock_1);
    il_vanish();
    gb_lock_drop(&lock_1);
}

/* Mixed steps on three objects: what a reduction might get wrong. */
static void mixed_1(void) { gb_add(A(0), 1), gb_store(A(1), gb_load(A(2)) + 1), gb_add(A(0), 2); }
static void mixed_2(void) { gb_store(A(2), gb_load(A(0)) + 3), gb_add(A(1), gb_load(A(0))); }
static void mixed_3(void) { gb_add(A(1), 5), gb_store(A(0), gb_load(A(1))); }
static void mixed_cas(void)
{
    uint64_t old = gb_load(A(0));
    while (!gb_cas(A(0), &old, old * 2 + 1))
        continue;
    gb_store(A(2), old);
}

#define TOY(name, a_setup, a_final, a_failures, ...) \
    static const il_case name = {.setup = a_setup, .threads = {__VA_ARGS__}, .final = a_final, .failures = a_failures}

TOY(writers, setup, NULL, 0, store_1, store_2, store_3);
TOY(alone, setup, NULL, 0, own_1, own_2, own_3);
TOY(readers, setup, NULL, 0, store_1, read_to_4, read_to_5);
TOY(buffering, setup, NULL, 0, buffer_1, buffer_2);
TOY(mixed, setup, NULL, 0, mixed_1, mixed_2, mixed_3);
TOY(mixed_failing, setup, NULL, 1, mixed_cas, mixed_cas, mixed_2);
TOY(locks, no_locks, NULL, 0, one_two, try_one, with_lock);
TOY(lock_and_add, no_locks, NULL, 0, with_lock, with_lock_2, with_lock);
TOY(vanishing, setup, NULL, 0, steps_1, steps_2, end_others);
TOY(vanishing_locked, no_locks, NULL, 0, with_lock, with_lock_2, lock_and_vanish);
TOY(vanishing_at_once, setup, NULL, 0, il_vanish, own_2);
TOY(counted, setup, is_2, 0, increment, increment);
TOY(lost, setup, is_2, 0, increment_in_two, increment_in_two);
TOY(deadlock, no_locks, NULL, 0, one_two, two_one);
TOY(weak, setup, NULL, 0, once_weak);
TOY(endless, setup, NULL, 0, forever, own_1);
TOY(handed, setup, NULL, 0, say, hear);
TOY(handed_relaxed, setup, NULL, 0, say_relaxed, hear);
TOY(heard_relaxed, setup, NULL, 0, say, hear_relaxed);

/* ---- real cases that are small enough for every order ---- */

static void two_held(void)
{
    as_with_heap(0);
    take_for(1, SMALL, 1);
    take_for(2, SMALL, 1);
    take_for(0, SMALL, 6);
    as_end();
}
static void give_0(void) { give(0); }
static void drain(void) { gb_inbox_drain(gb_self); }
static void leave(void) { gb_thread_exit(); }
static void begin(void) { gb_thread_start(); }
TOY(real_free, two_held, NULL, 1, drain, give_0);
TOY(real_two, two_held, NULL, 0, NULL, give_0, give_0);
TOY(real_exit, two_held, NULL, 0, leave, give_0);
TOY(real_adopt, two_held, NULL, 0, leave, NULL, NULL, begin);

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    il_state = host_state;
    same("three stores to one word: 3! orders, 3 outcomes", &writers, 6, 3);
    same("three threads that share nothing: one order", &alone, 1, 1);
    same("a store and two loads: each load before it or after", &readers, 4, 4);
    same("store buffering: three of four outcomes, one after the other", &buffering, 3, 3);
    same("mixed steps on three words", &mixed, 0, 0);
    same("mixed compare-and-swaps, one failing for no reason", &mixed_failing, 0, 0);
    same("locks taken and tried", &locks, 0, 0);
    same("a lock and shared counters", &lock_and_add, 0, 0);
    same("two threads vanish in the middle of their steps", &vanishing, 0, 0);
    same("threads vanish, but none that holds the lock", &vanishing_locked, 0, 0);
    same("a thread vanishes before, between and after two steps", &vanishing_at_once, 3, 3);
    same("the real source: a free against a drain", &real_free, 0, 0);
    same("the real source: two frees", &real_two, 0, 0);
    same("the real source: a free against an exit", &real_exit, 0, 0);
    same("the real source: an exit against an adoption", &real_adopt, 0, 0);
    finds("increments by one operation", &counted, 0, NULL);
    finds("increments by two operations", &lost, 0, "lost");
    finds("locks in opposite order", &deadlock, 0, "deadlock");
    finds("one weak compare-and-swap, none failing for no reason", &weak, 0, NULL);
#ifndef __clang__ /* clang does not distinguish weak and strong ones */
    finds("one weak compare-and-swap, one failing for no reason", &weak, 1, "no reason");
#endif
    finds("a loop that waits for what never comes", &endless, 0, "no end");
    finds("a message by release and acquire", &handed, 0, NULL);
    finds("a message by a relaxed store", &handed_relaxed, 0, "race");
    finds("a message by a relaxed load", &heard_relaxed, 0, "race");
    printf("%d of the tester's own tests failed\n", failed);
    return failed > 0;
}
