/* Common heaps: threads without a heap take turns in them, while others free their blocks, empty them at a tick, and
 * fork. B and C have no heap. */
#include "cases.h"

/* From here on threads begin without a heap, as if GB_FEW_HEAPS more heaps were in use. */
static void many_heaps(void)
{
    glebe_live.stats.heaps += GB_FEW_HEAPS;
    gb_store_relaxed(&gb_the.records.in_use, (uint32_t)glebe_live.stats.heaps);
}

static void no_common_heap(void)
{
    as_with_heap(0);
    take_for(0, SMALL, 1);
    many_heaps();
    as_end();
}

/* A page of the common heap: A holds two blocks, D five, and one is free. */
static void common_page(size_t bytes)
{
    as_with_heap(0);
    gb_self->tick = 1000;
    many_heaps();
    as(1);
    take_for(0, bytes, 2);
    take_for(3, bytes, 5);
    if (bytes == SMALL)
        return; /* the last block is on the thread free list */
    take_for(1, bytes, 1);
    free_for(1, 0, 1);
    the_world.count[1] = 0;
}

static void small_page(void)
{
    common_page(SMALL);
    as_end();
}

static void medium_page(void)
{
    common_page(MEDIUM);
    as_end();
}

/* A page of the common heap, of which C holds the last block. No thread entered the heap for two seconds. It is
 * the first, which the next tick looks at. */
static void idle(size_t bytes)
{
    as_with_heap(0);
    many_heaps();
    as(1);
    take_for(2, bytes, 1);
    take_for(1, bytes, 1);
    free_for(1, 0, 1);
    the_world.count[1] = 0;
    as_end();
    the_world.now_ms = 2000;
}

static void idle_small(void) { idle(SMALL); }
static void idle_medium(void) { idle(MEDIUM); }

static void idle_and_due(void) /* the next request from the common heap looks at the clock */
{
    idle(SMALL);
    gb_common_heap(&gb_the.common[0])->tick = 1;
}

static void idle_and_background(void) /* A is the background thread */
{
    idle(SMALL);
    gb_background_start();
}

/* Of A's two pages one is available, and C holds a block of it. The common heap's page is full. */
static void available_page(void)
{
    as_with_heap(0);
    take_for(2, SMALL, 1);
    take_for(0, SMALL, PAGE_BLOCKS);
    free_for(0, 0, PAGE_BLOCKS / 2);
    many_heaps();
    as(1);
    take_for(3, SMALL, PAGE_BLOCKS);
    as_end();
}

static void exits(void) { gb_thread_exit(); }
static void takes(void) { take(SMALL); }
static void takes_medium(void) { take(MEDIUM); }
static void gives(void) { give(0); }

static void takes_and_gives(void)
{
    take(SMALL);
    give(0);
}

static void a_gives(void)
{
    give(0);
    gb_remote_flush(gb_self);
}

static void a_gives_both(void)
{
    give(0);
    gb_remote_flush(gb_self);
    give(1);
    gb_remote_flush(gb_self);
}

static void a_ticks(void) { gb_tick_due(gb_self); }
static void a_collects(void) { glebe_trim(NULL); }

/* ---- fork ---- */

/* Another fork handler of this thread allocates while the thread holds all locks. */
static void forks(void)
{
    gb_fork_prepare();
    take(SMALL);
    gb_fork_parent();
    take(SMALL);
}

/* The child: all other threads are gone, wherever they were. */
static void forks_to_child(void)
{
    gb_fork_prepare();
    il_vanish();
    gb_fork_child();
    for (int i = 0; i < PAGE_BLOCKS; i++)
        take(SMALL);
    give_all();
}

static void check_child(void)
{
    check_quiet();
    check_marks();
}

#define CHILD(a_name, a_title, a_setup, ...) \
    {.name = a_name, .title = a_title, .setup = a_setup, .threads = {__VA_ARGS__}, .final = check_child}

const il_case cases_common[] = {
    CASE("common", "two threads take from a common heap, a third frees to it",
        small_page, 0, a_gives, takes, takes),
    CASE("common-more", "the same, two frees, and one takes and frees",
        small_page, 0, a_gives_both, takes_and_gives, takes),
    CASE("common-medium", "the first of these with medium blocks",
        medium_page, 0, a_gives, takes_medium, takes_medium),
    CASE("common-first", "two threads make common heaps, a third trims",
        no_common_heap, 0, a_collects, takes, takes),
    CASE("common-exit", "a thread ends, and one in a common heap reclaims its page while another frees to it",
        available_page, 0, exits, takes, gives),
    CASE("common-rest", "a tick empties an idle common heap while one enters it and one frees to it",
        idle_small, 0, a_ticks, takes, gives),
    CASE("common-ticks", "the same, and the thread that enters looks at the clock too",
        idle_and_due, 0, a_ticks, takes, gives),
    CASE("common-cool", "the same with medium blocks",
        idle_medium, 0, a_ticks, takes_medium, gives),
    {.name = "common-back", .title = "the background thread empties it meanwhile", .setup = idle_and_background,
        .threads = {host_started, takes, gives}, .step = check_step, .final = check_final, .daemons = 1},
    CASE("common-fork", "a thread forks while one is in a common heap and one frees to it",
        small_page, 0, a_gives, takes, forks),
    CHILD("common-child", "the child of that fork uses the common heap",
        small_page, a_gives, takes, forks_to_child),
    {0},
};
