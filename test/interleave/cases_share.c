/* Markers that hand work to each other. Each item of work is scanned once, in the marking where it was found, and
 * marking ends when none is left. */
#include "../../src/gc/gc.h"
#include "cases.h"

enum { CHUNKS = 2, ITEMS = 3 };

static gb_share share; /* as after reset() at the end of every execution */
static gb_work chunks[CHUNKS];
static uint32_t scanned[ITEMS + 1], live; /* how often each item was; markers at work */

static void reset(void)
{
    memset(&share, 0, sizeof share);
    memset(scanned, 0, sizeof scanned);
    live = 0;
    for (uint32_t i = 0; i < CHUNKS; i++)
        gb_share_add(&share, &chunks[i]);
}

static void give_item(uintptr_t item);

/* Item 1 leads to two more. */
static void scan(uintptr_t item)
{
    scanned[item]++;
    if (item == 1) {
        give_item(2);
        give_item(3);
    }
}

static void give_item(uintptr_t item)
{
    gb_work *chunk = gb_share_empty(&share);
    if (!chunk) {
        scan(item);
        return;
    }
    chunk->count = 1;
    chunk->items[0] = item;
    gb_share_give(&share, chunk);
}

static void work(void)
{
    live++;
    for (gb_work *chunk = NULL; (chunk = gb_share_take(&share, chunk)) != NULL;)
        scan(chunk->items[0]);
    live--;
}

static void marks(void)
{
    gb_share_start(&share);
    scan(1);
    work();
}

static void marks_twice(void)
{
    for (uintptr_t item = 2; item <= 3; item++) {
        gb_share_start(&share);
        give_item(item);
        work();
        IL_CHECK(scanned[item] == 1, "item %u was scanned %u times when its marking ended", (unsigned)item,
            scanned[item]);
    }
}

static void helps(void)
{
    if (gb_share_join(&share))
        work();
}

static void all_scanned(uint32_t from)
{
    uint32_t counts[ITEMS + 1], markers = share.markers, left = live, empty = 0;
    bool open = share.open, full = share.full != NULL;
    for (gb_work *chunk = share.empty; chunk; chunk = chunk->next)
        empty++;
    memcpy(counts, scanned, sizeof counts);
    reset();
    for (uint32_t i = from; i <= ITEMS; i++)
        IL_CHECK(counts[i] == 1, "item %u was scanned %u times", i, counts[i]);
    IL_CHECK(!open && !full && empty == CHUNKS, "marking has not ended, or a chunk is lost: %u are empty", empty);
    IL_CHECK(markers == 0 && left == 0, "%u markers have not left", markers);
}

static void three_scanned(void) { all_scanned(1); }
static void two_scanned(void) { all_scanned(2); }

#define SHARE_CASE(a_name, a_title, a_final, a_long, ...) \
    {.name = a_name, .title = a_title, .setup = reset, .threads = {__VA_ARGS__}, .final = a_final, .is_long = a_long}

const il_case cases_share[] = {
    SHARE_CASE("share", "a marker and a helper", three_scanned, false, marks, helps),
    SHARE_CASE("share-again", "two markings, and a helper that may be late", two_scanned, false, marks_twice,
        helps),
    SHARE_CASE("share-more", "a marker and two helpers", three_scanned, true, marks, helps, helps),
    {0},
};
