/* Work that markers hand to each other (GB_RUNTIMES).
 *
 *     marker --gb_share_give--> full ──► chunk ──► chunk      a chunk: up to 254 addresses of objects to scan
 *            <--gb_share_take--                               markers keep the rest on stacks of their own
 *            <--gb_share_empty-- empty ──► chunk ──► ...      no chunk is left: the marker finds another way
 *
 * 1. A marker is idle from the moment when it finds no full chunk until it gets one. `wanted` says to the others that
 *    it would be good to give: it is a hint, and read without the lock.
 * 2. Marking ends when all markers that joined are idle: none has work, and none is left to give any. The marker that
 *    sees this ends it for all. A marker joins only before the end.
 * 3. Idle markers sleep on `turn`, which changes when a chunk is given, at the end, and when the last marker has left.
 *    They read it under the lock, before they sleep.
 * 4. The next marking starts when all markers have left this one: a marker that wakes late would take its work.
 *
 * The lock guards all fields but the two atomic ones. It is held for a few instructions, once per chunk. */
#include "gc.h"

/* Sleeps until `turn` changes. Under the lock, which is dropped meanwhile. */
static void share_sleep(gb_share *share)
{
    uint32_t turn = gb_load_relaxed(&share->turn);
    gb_lock_drop(&share->lock);
    gb_port_wait(&share->turn, turn, UINT32_MAX);
    gb_lock_take(&share->lock);
}

/* Waits until all markers have left. Under the lock. */
static void share_leave(gb_share *share)
{
    while (share->markers != 0)
        share_sleep(share);
}

void gb_share_end(gb_share *share)
{
    gb_lock_take(&share->lock);
    share_leave(share);
    gb_lock_drop(&share->lock);
}

void gb_share_start(gb_share *share)
{
    gb_lock_take(&share->lock);
    share_leave(share);
    share->full = NULL;
    share->markers = 1;
    share->idle = 0;
    share->open = true;
    gb_store_relaxed(&share->wanted, 0);
    gb_lock_drop(&share->lock);
}

bool gb_share_join(gb_share *share)
{
    gb_lock_take(&share->lock);
    bool open = share->open;
    share->markers += open;
    gb_lock_drop(&share->lock);
    return open;
}

void gb_share_add(gb_share *share, gb_work *chunk)
{
    chunk->next = share->empty;
    share->empty = chunk;
}

gb_work *gb_share_empty(gb_share *share)
{
    gb_lock_take(&share->lock);
    gb_work *chunk = share->empty;
    if (chunk)
        share->empty = chunk->next;
    gb_lock_drop(&share->lock);
    return chunk;
}

void gb_share_give(gb_share *share, gb_work *chunk)
{
    gb_lock_take(&share->lock);
    bool sleeps = share->idle != 0;
    chunk->next = share->full;
    share->full = chunk;
    gb_store_relaxed(&share->wanted, 0);
    if (sleeps)
        gb_add(&share->turn, 1);
    gb_lock_drop(&share->lock);
    if (sleeps)
        gb_port_wake(&share->turn);
}

gb_work *gb_share_take(gb_share *share, gb_work *done)
{
    gb_work *chunk = NULL;
    bool wakes = false;
    gb_lock_take(&share->lock);
    if (done)
        gb_share_add(share, done);
    share->idle++;
    while (share->open && !share->full && share->idle != share->markers) {
        gb_store_relaxed(&share->wanted, 1);
        share_sleep(share);
    }
    if (share->open && (chunk = share->full) != NULL) {
        share->full = chunk->next;
        share->idle--;
        gb_store_relaxed(&share->wanted, share->idle != 0 && !share->full);
    } else {
        wakes = share->open || share->markers == 1;
        share->open = false;
        share->markers--;
        if (wakes)
            gb_add(&share->turn, 1);
    }
    gb_lock_drop(&share->lock);
    if (wakes)
        gb_port_wake(&share->turn);
    return chunk;
}
