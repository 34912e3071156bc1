/* Medium pages: bits that a remote thread sets, and that the owner and the purger both clear; the count of remote
 * frees; the page's return. Blocks of 4 KiB, eight to a page. */
#include "cases.h"

static void free_now(uint32_t t, uint32_t from, uint32_t to)
{
    free_for(t, from, to);
    gb_heap_cool(gb_self);
}

/* A's current page: five blocks in use by A, one by B, one by C, one free and dirty. */
static void one_page(void)
{
    as_with_heap(0);
    take_for(1, MEDIUM, 1);
    take_for(2, MEDIUM, 1);
    take_for(0, MEDIUM, 6);
    free_now(0, 0, 1);
    as_end();
}

/* The same, and the chunk is in no queue: the first free queues it. */
static void one_page_at_rest(void)
{
    one_page();
    gb_purge_due(0, true);
}

static void a_works(void)
{
    take(MEDIUM);
    give(1); /* stays warm */
    give(2);
    take(MEDIUM);
    take(MEDIUM);
}

static void a_takes(void) { take(MEDIUM); }
static void give_0(void) { give(0); }
static void a_takes_two(void) { take(MEDIUM), take(MEDIUM); }
static void a_takes_zero(void) { take_zero(MEDIUM), take_zero(MEDIUM); }
static void give_all_of_it(void) { give_all(); }
static void purge_all(void) { gb_purge_due(the_world.now_ms, true); }
static void purge_all_twice(void) { purge_all(), purge_all(); }
static void purge_idle(void) { gb_purge_due(the_world.now_ms, false); }

/* All of A's current page is free and dirty: the purger may hold all of it when A looks. */
static void all_free(void)
{
    as_with_heap(0);
    take_for(0, MEDIUM, PAGE_BLOCKS);
    free_now(0, 0, PAGE_BLOCKS);
    as_end();
}

/* One block of A's current page is in use by B throughout: the purger may hold all others. */
static void nearly_free(void)
{
    as_with_heap(0);
    take_for(1, MEDIUM, 1);
    take_for(0, MEDIUM, PAGE_BLOCKS - 1);
    free_now(0, 0, PAGE_BLOCKS - 1);
    as_end();
}

/* Marked idle once, and due again while the chunk is busy. */
static void idle_once(void)
{
    one_page();
    the_world.now_ms = 600;
    gb_the.now_ms = 600;
    as(0);
    free_now(0, 5, 6);
    as_end();
    gb_purge_due(600, false);
    the_world.now_ms = 1200;
}

/* Two available pages, of which B and C hold the last blocks; another is current. */
static void last_blocks(void)
{
    as_with_heap(0);
    take_for(1, MEDIUM, 1);
    take_for(0, MEDIUM, 7);
    take_for(2, MEDIUM, 1);
    take_for(0, MEDIUM, 7);
    take_for(0, MEDIUM, 1);
    free_now(0, 0, 14);
    as_end();
}

static void a_drains_twice(void)
{
    gb_inbox_drain(gb_self);
    gb_inbox_drain(gb_self);
}

/* The returned run is taken again, for another class: a thread that still touched it would touch the new page. */
static void a_drains_and_takes(void)
{
    gb_inbox_drain(gb_self);
    take(MEDIUM - 512);
    gb_inbox_drain(gb_self);
}

static void a_drains_and_trims(void)
{
    gb_inbox_drain(gb_self);
    gb_medium_trim(gb_self);
}

/* A full page, of which B and C hold half: it wakes. */
static void full_page(void)
{
    as_with_heap(0);
    take_for(1, MEDIUM, 2);
    take_for(2, MEDIUM, 2);
    take_for(0, MEDIUM, 4);
    as_end();
}

/* B's and C's frees are counted; the count is right whatever the owner does meanwhile. */
static void a_drains_works(void)
{
    gb_inbox_drain(gb_self);
    take(MEDIUM);
    give(0);
    give(1);
    gb_inbox_drain(gb_self);
}

const il_case cases_medium[] = {
    CASE("notify", "two threads free medium blocks, the owner counts",
        full_page, 0, a_drains_works, give_0, give_0),
    LONG("notify-more", "the same, two blocks each",
        full_page, 0, a_drains_works, give_all_of_it, give_all_of_it),
    CASE("medium", "owner, a remote free and the purger on one page",
        one_page, 0, a_works, give_all_of_it, purge_all),
    CASE("medium-rest", "the same, and the remote free queues the chunk",
        one_page_at_rest, 0, a_takes_two, give_all_of_it, purge_all),
    CASE("medium-two", "owner and two remote frees",
        one_page, 0, a_works, give_all_of_it, give_all_of_it),
    LONG("medium-four", "owner, two remote frees and the purger",
        one_page, 0, a_takes, give_all_of_it, give_all_of_it, purge_all),
    LONG("medium-more", "the same, and the owner takes two",
        one_page, 0, a_takes_two, give_all_of_it, give_all_of_it, purge_all),
    CASE("zero", "calloc against the purger and a remote free",
        one_page, 0, a_takes_zero, give_all_of_it, purge_all),
    CASE("idle", "the purger takes only what was idle",
        idle_once, 0, a_works, give_all_of_it, purge_idle),
    CASE("all-claimed", "the purger holds a whole page when its owner comes",
        all_free, 0, a_takes_two, purge_all_twice),
    CASE("nearly-claimed", "the same, and one block of the page stays in use",
        nearly_free, 0, a_takes_two, purge_all_twice),
    CASE("release", "two pages become empty, one is given back and used again",
        last_blocks, 0, a_drains_and_takes, give_all_of_it, give_all_of_it),
    LONG("release-two", "the same, and the purger comes by",
        last_blocks, 0, a_drains_twice, give_all_of_it, give_all_of_it, purge_all),
    LONG("release-all", "the same, and the owner trims",
        last_blocks, 0, a_drains_and_trims, give_all_of_it, give_all_of_it, purge_all),
    {0},
};
