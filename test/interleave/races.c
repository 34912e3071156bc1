/* Races between plain accesses: two accesses to a byte, at least one a write and at least one not atomic, that no chain
 * of releases and acquires orders. They are found even if the two were far apart in this execution.
 *
 *     thread A                     thread B            clock[B][A]: what of A's past B knows. It grows if B acquires
 *     block->next = ...            load-acquire x      what A released. B knows an access that A made at its time t if
 *     store-release x  ------->    ... block->next     t <= clock[B][A]; else B's access races with it.
 *
 * The orders are those in the source: a relaxed load acquires nothing, a relaxed store releases nothing. */
#include "engine.h"

#include <stdio.h>
#include <string.h>

enum { CELLS = 1 << 14, RECORDS = 12, SYNCS = 1 << 12 };

typedef struct record {
    uint32_t time;
    uint8_t thread, bytes; /* bit set of the cell's eight */
    bool write, atomic;
    const void *pc;
} record;

typedef struct cell {
    uintptr_t address; /* / 8 */
    uint64_t execution;
    uint32_t used;
    record records[RECORDS];
} cell;

typedef struct sync {
    uintptr_t object;
    uint64_t execution;
    uint32_t clock[IL_THREADS];
} sync;

static cell cells[CELLS];
static sync syncs[SYNCS];
static uint32_t clocks[IL_THREADS][IL_THREADS];
static uint64_t execution;

void races_reset(void)
{
    execution++;
    memset(clocks, 0, sizeof clocks);
    for (int i = 0; i < IL_THREADS; i++)
        clocks[i][i] = 1;
}

static cell *cell_at(uintptr_t granule)
{
    size_t i = (granule * 0x9e3779b97f4a7c15u) >> 50;
    for (uint32_t tries = 0; cells[i].execution == execution && cells[i].address != granule; tries++) {
        IL_CHECK(tries < CELLS / 2, "races.c: too many addresses");
        i = (i + 1) % CELLS;
    }
    if (cells[i].execution != execution) {
        cells[i].address = granule;
        cells[i].execution = execution;
        cells[i].used = 0;
    }
    return &cells[i];
}

static void race(const record *old, const record *new, uintptr_t address)
{
    char name[64];
    host_name(name, sizeof name, (const void *)address);
    il_fail("race on %s: %s%s by %c at %s, and %s%s by %c at %s, with nothing between that orders them", name,
        old->atomic ? "atomic " : "",
        old->write ? "write" : "read", 'A' + old->thread, host_line(old->pc, 0), new->atomic ? "atomic " : "",
        new->write ? "write" : "read", 'A' + new->thread, host_line(new->pc, 1));
}

static void access_cell(uint32_t thread, uintptr_t granule, uint8_t bytes, bool write, bool atomic, const void *pc)
{
    cell *c = cell_at(granule);
    record now = {clocks[thread][thread], (uint8_t)thread, bytes, write, atomic, pc};
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->used; i++) {
        const record *r = &c->records[i];
        bool known = r->thread == thread || r->time <= clocks[thread][r->thread];
        if ((r->bytes & bytes) && !known && (r->write || write) && !(r->atomic && atomic))
            race(r, &now, granule * 8 + (uintptr_t)__builtin_ctz(r->bytes & bytes));
        /* An access that would race with the old one also races with the new one: forgets the old one. */
        bool covered = known && (r->bytes & ~bytes) == 0 && (write || !r->write) && (r->atomic || !atomic);
        if (!covered)
            c->records[kept++] = *r;
    }
    IL_CHECK(kept < RECORDS, "races.c: too many accesses to remember");
    c->records[kept++] = now;
    c->used = kept;
}

void races_access(uint32_t thread, uintptr_t address, size_t bytes, bool write, bool atomic, const void *pc)
{
    if (host_is_private(address))
        return;
    for (uintptr_t end = address + bytes; address < end;) {
        uintptr_t stop = (address | 7) + 1;
        stop = stop < end ? stop : end;
        access_cell(thread, address / 8, (uint8_t)(((1u << (stop - address)) - 1) << address % 8), write, atomic, pc);
        address = stop;
    }
}

static sync *sync_at(uintptr_t object)
{
    size_t i = (object * 0x9e3779b97f4a7c15u) >> 52;
    while (syncs[i].execution == execution && syncs[i].object != object)
        i = (i + 1) % SYNCS;
    if (syncs[i].execution != execution)
        syncs[i] = (sync){.object = object, .execution = execution};
    return &syncs[i];
}

static void merge(uint32_t *into, const uint32_t *other)
{
    for (int i = 0; i < IL_THREADS; i++)
        into[i] = into[i] > other[i] ? into[i] : other[i];
}

void races_vanish(uint32_t thread)
{
    for (int i = 0; i < IL_THREADS; i++)
        merge(clocks[thread], clocks[i]);
}

void races_sync(uint32_t thread, uintptr_t object, enum il_op op, enum il_order order)
{
    sync *s = sync_at(object);
    uint32_t *mine = clocks[thread];
    if (order & IL_ACQUIRE)
        merge(mine, s->clock);
    if (order & IL_RELEASE) {
        if (op == IL_WRITE || op == IL_DROP)
            memcpy(s->clock, mine, sizeof s->clock);
        else
            merge(s->clock, mine);
        mine[thread]++;
    } else if (op == IL_WRITE)
        memset(s->clock, 0, sizeof s->clock);
}
