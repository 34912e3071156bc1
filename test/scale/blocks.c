/* Many large blocks: what each costs in memory and mappings, how the allocator finds a place for one, and what is left
 * after their frees. */
#include "scale.h"
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

static void *nothing(void *unused) { return unused; }

/* Afterwards the process must work as before: a thread starts, and blocks of some MiB are served. */
static void still_works(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, nothing, NULL) == 0)
        pthread_join(thread, NULL);
    else
        refuse(1);
    for (size_t mib = 8; mib <= 128; mib *= 16) {
        char *block = ask(mib << 20);
        if (block)
            stamp(block, mib << 20, mib, false);
        give(block);
    }
}

static bool odd(size_t i) { return i % 2; }

/* COUNT FROM TO ALIGNMENT SPARSE */
void blocks_case(const size_t *argument)
{
    struct set set = set_of(argument[0], argument[1], argument[2]);
    set.alignment = argument[3];
    set.sparse = argument[4];
    begin();
    set_take(&set, 0, set.count);
    say("live_mappings", (double)mappings());
    say_resident("live_kb");
    say("blocks", (double)set_live(&set));
    say("kb_each", (double)resident_kb() / (double)set_live(&set));
    set_check(&set);
    set_drop(&set, 0, set.count, odd); /* leaves a hole beside each block */
    mappings();
    set_end(&set);
    still_works();
    say("mappings_left", (double)mappings());
}

/* COUNT BYTES NEW PAIRS. Tests the search for places, not memory: most blocks are not touched, and no page is a huge
 * one. New blocks are requested without a clock, whose cost would show; then half as many again, each timed. */
void holes_case(const size_t *argument)
{
    size_t count = argument[0], bytes = argument[1], fresh = argument[2], pairs = argument[3], larger = bytes * 5 / 4;
    char **at = outside(count * sizeof *at), **new = outside(fresh * sizeof *new);
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    begin();
    for (size_t i = 0; i < count && (i % 1024 || !over_cap()); i++) {
        at[i] = malloc(bytes);
        if (!at[i])
            refuse(1);
        else if (i % 100 == 1)
            stamp(at[i], bytes, i, true);
    }
    mappings();
    for (size_t i = 0; i < count; i++)
        if (one_in_ten(i)) {
            free(at[i]);
            at[i] = NULL;
        }
    uint64_t from = process_cpu_ns();
    for (size_t i = 0; i < fresh; i++)
        new[i] = malloc(larger);
    uint64_t to = process_cpu_ns();
    say("new_us", (double)(to - from) / 1e3 / (double)fresh);
    for (size_t i = 0; i < fresh; i++)
        if (!new[i])
            refuse(1);
    from = process_cpu_ns();
    for (size_t i = 0; i < pairs; i++) {
        size_t which = mixed(i) % fresh;
        free(new[which]);
        new[which] = malloc(larger);
    }
    to = process_cpu_ns();
    say("pair_us", (double)(to - from) / 1e3 / (double)pairs);
    for (size_t i = 0; i < fresh; i++) {
        give(new[i]);
        new[i] = ask(larger);
    }
    mappings();
    say_resident("live_kb");
    for (size_t i = 0; i < count; i++) {
        if (at[i] && i % 100 == 1)
            check_stamp(at[i], bytes, i, true);
        free(at[i]);
    }
    for (size_t i = 0; i < fresh; i++)
        free(new[i]);
    outside_end(at, count * sizeof *at);
    outside_end(new, fresh * sizeof *new);
}

/* COUNT MIB: much address space, little memory. */
void ranges_case(const size_t *argument)
{
    enum { SMALLER = 64, LARGER = 32 };
    struct set set = set_of(argument[0], argument[1] << 20, argument[1] << 20);
    struct set other = set_of(SMALLER, (size_t)100 << 20, (size_t)100 << 20);
    set.alignment = 4096;
    set.sparse = other.sparse = true;
    begin();
    set_take(&set, 0, set.count);
    mappings();
    set_end(&set);
    set_take(&other, 0, SMALLER); /* the size does not depend on the addresses' last users */
    set_end(&other);
    other = set_of(LARGER, (size_t)4 << 30, (size_t)4 << 30);
    other.sparse = true;
    set_take(&other, 0, LARGER);
    set_end(&other);
    still_works();
    say("mappings_left", (double)mappings());
}

static char *written(size_t bytes, uint64_t which)
{
    char *block = malloc(bytes);
    if (block) {
        memset(block, (int)which, bytes);
        stamp(block, bytes, which, false);
    } else {
        refuse(1);
    }
    return block;
}

/* LIVE FROM TO COUNT: buffers are filled, used, and replaced by others of similar size. The clock measures the
 * whole. */
void replace_case(const size_t *argument)
{
    size_t live = argument[0], range = argument[2] - argument[1] + 1, count = argument[3];
    struct { char *at; size_t bytes; uint64_t which; } *blocks = outside(live * sizeof *blocks);
    begin();
    for (size_t i = 0; i < live + count; i++) {
        size_t place = i < live ? i : mixed(i) % live;
        if (i >= live && blocks[place].at) {
            check_stamp(blocks[place].at, blocks[place].bytes, blocks[place].which, false);
            free(blocks[place].at);
        }
        blocks[place].bytes = argument[1] + mixed(~i) % range;
        blocks[place].which = i;
        blocks[place].at = written(blocks[place].bytes, i);
    }
    mappings();
    say_resident("live_kb");
    for (size_t i = 0; i < live; i++) {
        if (blocks[i].at)
            check_stamp(blocks[i].at, blocks[i].bytes, blocks[i].which, false);
        give(blocks[i].at);
    }
}

/* GIB OPERATIONS: sizes from 16 KiB to 256 MiB, each doubling as likely as the next; touched at the start and at the
 * end. The case allocates while there is room, and frees a random block when there is none. Now and then it frees a
 * third of all blocks at once. */
void pieces_case(const size_t *argument)
{
    enum { PLACES = 1 << 16, LEAST_LOG2 = 14, DOUBLINGS = 14, LOOKS = 64 };
    size_t room = argument[0] << 30, operations = argument[1], used = 0, live = 0, most = 0;
    struct piece { char *at; size_t bytes; uint64_t which; } *pieces = outside(PLACES * sizeof *pieces);
    begin();
    for (size_t i = 0; i < operations; i++) {
        uint64_t chance = mixed(i);
        size_t least = (size_t)1 << (LEAST_LOG2 + chance % DOUBLINGS), bytes = least + mixed(chance) % least;
        size_t leave = used + bytes > room || live == PLACES ? 1 : 0;
        if (i % (operations / 16 + 1) == operations / 16)
            leave = live / 3;
        for (; leave && live; leave--) {
            size_t which = mixed(chance + leave) % live;
            struct piece *piece = &pieces[which];
            check_stamp(piece->at, piece->bytes, piece->which, false);
            give(piece->at);
            used -= piece->bytes;
            *piece = pieces[--live];
        }
        if (used + bytes > room || live == PLACES || (i % 1024 == 0 && over_cap()))
            continue;
        char *at = ask(bytes);
        if (at) {
            stamp(at, bytes, i, false);
            pieces[live++] = (struct piece){at, bytes, i};
            used += bytes;
        }
        most = live > most ? live : most;
        if (i % (operations / LOOKS + 1) == 0)
            mappings();
    }
    say("most_live", (double)most);
    say_resident("live_kb");
    say("kb_each", (double)resident_kb() / (double)live);
    say("kb_at_most", (double)peak_kb() / (double)most);
    while (live) {
        struct piece *piece = &pieces[--live];
        check_stamp(piece->at, piece->bytes, piece->which, false);
        give(piece->at);
    }
    still_works();
    say("mappings_left", (double)mappings());
}
