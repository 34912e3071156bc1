/* Pages of a heap that fork left without a thread: the thread that frees the last block returns the page, and no thread
 * touches it from then on. */
#include "cases.h"

static void d_vanishes(void)
{
    gb_heap_at((gb_heap_id){1})->kind = GB_HEAP_DEAD;
    gb_the.heaps_dead = true;
}

/* D's page is all in use: one block by A, which has no heap and sends at once; the others by B, whose slot holds six
 * already. */
static void small_page(void)
{
    as_with_heap(3);
    take_for(0, SMALL, 1);
    take_for(1, SMALL, PAGE_BLOCKS - 1);
    d_vanishes();
    as_with_heap(1);
    free_for(1, 1, PAGE_BLOCKS - 1);
    as_end();
}

/* B and C hold a block each, the others are free. */
static void medium_page(void)
{
    as_with_heap(3);
    take_for(1, MEDIUM, 1);
    take_for(2, MEDIUM, 1);
    take_for(3, MEDIUM, PAGE_BLOCKS - 2);
    free_for(3, 0, PAGE_BLOCKS - 2);
    gb_heap_cool(gb_self);
    d_vanishes();
    as_end();
}

static void give_0(void) { give(0); }

/* The returned run is taken again: a thread that still touched it would touch the new page. */
static void give_flush_take(void)
{
    give(0);
    gb_remote_flush(gb_self);
    take(SMALL);
}

static void purge_all(void) { gb_purge_due(the_world.now_ms, true); }

static void complain(void *context, int invariant, const void *address, const char *what)
{
    char name[64];
    (void)context;
    host_name(name, sizeof name, address);
    il_fail("glebe_check: invariant %d at %s: %s", invariant, name, what);
}

static void check_dead(void)
{
    IL_CHECK(!host_lock_held(&gb_the.lock), "a lock is held at the end");
    glebe_check(NULL, 2, complain, NULL);
    IL_CHECK(gb_load(&gb_heap_at((gb_heap_id){1})->bytes) == 0, "a page of the dead heap did not go back");
}

#define DEAD(a_name, a_title, a_setup, a_failures, ...) \
    {.name = a_name, .title = a_title, .setup = a_setup, .threads = {__VA_ARGS__}, .final = check_dead, \
        .failures = a_failures}

const il_case cases_dead[] = {
    DEAD("dead-small", "the last blocks of a dead heap's small page are freed",
        small_page, 1, give_0, give_flush_take),
    DEAD("dead-medium", "the same of a medium page, and the purger comes by",
        medium_page, 0, purge_all, give_0, give_0),
    {0},
};
