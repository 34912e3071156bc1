/* Huge blocks: over 1 MiB, and those that grew beyond 256 KiB. Each is at the start of a slot of address space that is twice the next power
 * of two, so that it can grow where it stands. Address space is free on 64 bits; memory is committed as far as the block needs it.
 *
 *     slot: |#### committed ####| room to grow, no memory      |     sizes are powers of two from 4 MiB, aligned to themselves
 *           |== block ==|
 *
 * Beyond its slot a block moves to a larger one by moving its page tables, not its bytes. A freed slot keeps its memory for
 * purge_ms, so that the next block of that size finds it there; what that one does not need, it finds as it grows. What is kept is
 * bounded. Given back lazily it stays dirty, but no longer counts as kept. The slot table has an entry for each 4 MiB; the entry of
 * a slot's first piece describes it. All of it is under the region's lock. */
#include "core.h"

enum { HUGE_SLOTS_MAX = 20000 }; /* each may cost three mappings, of which Linux allows 65530 by default */

/* Slots are numbered in pieces of 4 MiB from the region's end, the way they are handed out; 0 is none. */
static uint32_t slot_number(const gb_slot *slot)
{
    return (uint32_t)(slot - gb_the.slots);
}

static gb_slot *slot_at(uint32_t number)
{
    return gb_the.slots + number;
}

uintptr_t gb_huge_start(const gb_slot *slot)
{
    return gb_the.slots_end - ((uintptr_t)slot_number(slot) << GB_GRANULE_LOG2);
}

gb_slot *gb_huge_entry(const void *address)
{
    uintptr_t at = (uintptr_t)address;
    if (at < gb_load_relaxed(&gb_the.slots_low) || at >= gb_the.slots_end)
        return NULL;
    return slot_at((uint32_t)((gb_the.slots_end - gb_round_down(at, GB_GRANULE_BYTES)) >> GB_GRANULE_LOG2));
}

gb_slot *gb_huge_find(const void *address)
{
    gb_slot *slot = gb_huge_entry(address);
    return slot && slot->state == GB_SLOT_USED && gb_huge_start(slot) == (uintptr_t)address ? slot : NULL;
}

/* ---- lists: the free slots of a size, last freed first; the blocks of a heap ---- */

static void slot_push(uint32_t *first, gb_slot *slot)
{
    slot->prev = 0;
    slot->next = *first;
    if (*first)
        slot_at(*first)->prev = slot_number(slot);
    *first = slot_number(slot);
}

static void slot_remove(uint32_t *first, gb_slot *slot)
{
    if (slot->prev)
        slot_at(slot->prev)->next = slot->next;
    else
        *first = slot->next;
    if (slot->next)
        slot_at(slot->next)->prev = slot->prev;
}

/* ---- slots ---- */

static unsigned slot_log2(size_t bytes, size_t alignment)
{
    unsigned room = sizeof(size_t) == 8 && gb_the.slots_used < HUGE_SLOTS_MAX ? 1 : 0;
    unsigned log2 = gb_log2_ceil(bytes) + room;
    if (log2 < GB_GRANULE_LOG2)
        log2 = GB_GRANULE_LOG2;
    if (((size_t)1 << log2) < alignment)
        log2 = gb_log2(alignment);
    return log2;
}

/* A new slot from the low end of what was handed out. */
static gb_slot *slot_new(unsigned log2)
{
    size_t bytes = (size_t)1 << log2;
    uintptr_t low = gb_load_relaxed(&gb_the.slots_low);
    if (low - gb_the.slots_base < bytes)
        return NULL;
    uintptr_t at = (low - bytes) & ~(uintptr_t)(bytes - 1);
    if (at < gb_the.slots_base)
        return NULL;
    gb_slot *slot = slot_at((uint32_t)((gb_the.slots_end - at) >> GB_GRANULE_LOG2));
    if (!gb_meta_commit(gb_the.slots, &gb_the.slots_committed, (slot_number(slot) + 1) * sizeof *slot))
        return NULL;
    gb_store_relaxed(&gb_the.slots_low, at);
    /* Programs that look at what lies before a block of megabytes were never told, for there a header lay: LuaMetaTeX does. */
    if (gb_the.reserved && !GB_SECURE && !GB_AUDIT)
        gb_port_readable(at - gb_the.page_bytes, gb_the.page_bytes);
    slot->log2 = (uint8_t)log2;
    slot->state = GB_SLOT_FREE;
    return slot;
}

/* ---- idle memory: what free slots hold, and what lies behind the blocks of others ---- */

size_t gb_huge_idle(const gb_slot *slot)
{
    return slot->lazy ? 0 : slot->dirty - (slot->state == GB_SLOT_USED ? slot->bytes : 0);
}

static void idle_remove(gb_slot *slot)
{
    slot->idle = 0;
    if (slot->idle_prev)
        slot_at(slot->idle_prev)->idle_next = slot->idle_next;
    else
        gb_store_relaxed(&gb_the.slots_idle, slot->idle_next);
    if (slot->idle_next)
        slot_at(slot->idle_next)->idle_prev = slot->idle_prev;
    else
        gb_the.slots_idle_last = slot->idle_prev;
}

/* Its time begins now. */
static void idle_enter(gb_slot *slot)
{
    if (gb_huge_idle(slot) == 0)
        return;
    if (!gb_load_relaxed(&gb_the.slots_idle))
        gb_background_nudge();
    glebe_live.stats.huge_cached_bytes += gb_huge_idle(slot);
    slot->idle = 1;
    slot->idle_ms = gb_port_now_ms();
    slot->idle_next = 0;
    slot->idle_prev = gb_the.slots_idle_last;
    gb_the.slots_idle_last = slot_number(slot);
    if (slot->idle_prev)
        slot_at(slot->idle_prev)->idle_next = slot_number(slot);
    else
        gb_store_relaxed(&gb_the.slots_idle, slot_number(slot));
}

/* It had `before`. Its time goes on. */
static void idle_changed(gb_slot *slot, size_t before)
{
    glebe_live.stats.huge_cached_bytes += (uint64_t)gb_huge_idle(slot) - before;
    if (gb_huge_idle(slot) == 0)
        idle_remove(slot);
}

/* Before it serves another block, or none. */
static void idle_leave(gb_slot *slot)
{
    if (!slot->idle)
        return;
    glebe_live.stats.huge_cached_bytes -= gb_huge_idle(slot);
    idle_remove(slot);
}

static gb_slot *slot_take(unsigned log2)
{
    if (log2 >= GB_SLOT_LOG2S)
        return NULL;
    uint32_t first = gb_the.slots_free[log2];
    if (!first)
        return slot_new(log2);
    gb_slot *slot = slot_at(first);
    slot_remove(&gb_the.slots_free[log2], slot);
    idle_leave(slot);
    slot->lazy = 0;
    return slot;
}

static void slot_give(gb_slot *slot)
{
    if (slot->state == GB_SLOT_LOST)
        return;
    slot->state = GB_SLOT_FREE;
    idle_enter(slot);
    slot_push(&gb_the.slots_free[slot->log2], slot);
}

/* Somebody else sits in the slot. The slot is not in use and on no list, and stays so. */
static void slot_lose(gb_slot *slot, size_t lost)
{
    if (slot->committed > lost)
        gb_port_decommit(gb_huge_start(slot) + lost, slot->committed - lost, gb_the.reserved);
    glebe_live.stats.committed_bytes -= slot->committed;
    slot->committed = slot->dirty = 0;
    slot->state = GB_SLOT_LOST;
}

/* Where only a place was chosen (!reserved) and somebody else has it, a free slot is lost. */
static bool slot_commit(gb_slot *slot, size_t bytes)
{
    if (bytes <= slot->committed)
        return true;
    size_t more = bytes - slot->committed, room = ((size_t)1 << slot->log2) - bytes, ahead = bytes / 8;
    ahead = gb_round_down(ahead < room ? ahead : room, gb_the.page_bytes);
    uintptr_t at = gb_huge_start(slot) + slot->committed;
    if (!gb_the.reserved || gb_port_commit(at, more + ahead, true) != GB_COMMITTED) {
        ahead = 0; /* where memory is counted, exactly what is needed */
        enum gb_commit got = gb_port_commit(at, more, gb_the.reserved);
        if (got == GB_TAKEN && slot->state == GB_SLOT_FREE)
            slot_lose(slot, 0);
        if (got != GB_COMMITTED)
            return false;
    }
    /* A block that grows by small steps is used to its end, which a new or a doubled one need not be. */
    uintptr_t from = gb_round_down(at, GB_CHUNK_BYTES), to = gb_round_down(at + more + ahead, GB_CHUNK_BYTES);
    if (slot->state == GB_SLOT_USED && more < slot->committed / 4 && to > from && glebe_live.stats.used_bytes >= GB_HUGE_BLOCKS_FROM
        && gb_the.huge_pages_slow == 0 && !gb_the.options.no_huge_pages)
        gb_port_huge_pages(from, to - from, true);
    slot->committed += more + ahead;
    glebe_live.stats.committed_bytes += more + ahead;
    return true;
}

/* Gives the memory behind `keep` bytes back. */
static size_t slot_purge(gb_slot *slot, size_t keep)
{
    keep = gb_round_up(keep, gb_the.page_bytes);
    if (slot->dirty <= keep)
        return 0;
    size_t given = slot->dirty - keep;
    if (gb_the.reserved) {
        if (gb_port_purge(gb_huge_start(slot) + keep, slot->committed - keep, false) == GB_PURGE_REFUSED)
            return 0;
    } else {
        if (!gb_port_decommit(gb_huge_start(slot) + keep, slot->committed - keep, false))
            return 0;
        glebe_live.stats.committed_bytes -= slot->committed - keep;
        slot->committed = keep;
    }
    slot->dirty = keep;
    glebe_live.stats.purges++;
    glebe_live.stats.purged_bytes += given;
    return given;
}

/* Of a free slot. Where a purge takes address space along, and where the host does not do it lazily, all of it goes at once. */
static size_t slot_purge_lazily(gb_slot *slot)
{
    if (!gb_the.reserved)
        return slot_purge(slot, 0);
    size_t given = slot->dirty;
    enum gb_purge done = gb_port_purge(gb_huge_start(slot), given, true);
    if (done == GB_PURGE_REFUSED)
        return 0;
    if (done == GB_PURGE_ZERO)
        slot->dirty = 0;
    else
        slot->lazy = 1;
    glebe_live.stats.purges++;
    glebe_live.stats.purged_bytes += given;
    return given;
}

/* From here on freed memory is not kept: a quarter of what is in use, and 16 MiB. */
static size_t cache_most(void)
{
    return ((size_t)16 << 20) + (size_t)glebe_live.stats.huge_bytes / 4;
}

/* Gives `most` bytes of a slot's idle memory back, from its end. */
static size_t idle_purge(gb_slot *slot, size_t most, bool lazily)
{
    size_t idle = gb_huge_idle(slot), keep = slot->dirty - (most < idle ? most : idle);
    size_t given = lazily && slot->state == GB_SLOT_FREE ? slot_purge_lazily(slot) : slot_purge(slot, keep);
    idle_changed(slot, idle);
    return given;
}

size_t gb_huge_purge(uint32_t since, bool all, bool lazily, size_t *budget_bytes)
{
    size_t given = 0;
    for (uint32_t link = gb_load_relaxed(&gb_the.slots_idle), last = gb_the.slots_idle_last; link && *budget_bytes > 0;) {
        gb_slot *slot = slot_at(link);
        if (!all && gb_ms_later(slot->idle_ms, since))
            break;
        link = link == last ? 0 : slot->idle_next;
        size_t purged = idle_purge(slot, *budget_bytes < GB_MAX_BYTES ? gb_round_up(*budget_bytes, gb_the.page_bytes) : SIZE_MAX, lazily);
        *budget_bytes -= purged < *budget_bytes ? purged : *budget_bytes;
        if (purged == 0) { /* refused, as where memory is locked: its time begins again */
            idle_leave(slot);
            idle_enter(slot);
        }
        given += purged;
    }
    return given;
}

size_t gb_huge_shrink(size_t bytes)
{
    size_t given = 0;
    for (uint32_t link = gb_load_relaxed(&gb_the.slots_idle); link && given < bytes;) {
        gb_slot *slot = slot_at(link);
        link = slot->idle_next;
        given += idle_purge(slot, bytes - given, false);
    }
    return given;
}

uint32_t gb_huge_wait(uint32_t now)
{
    uint32_t first = gb_load_relaxed(&gb_the.slots_idle);
    if (!first)
        return UINT32_MAX;
    uint32_t waited = gb_ms_since(now, slot_at(first)->idle_ms);
    return waited >= gb_the.options.purge_ms ? 0 : gb_the.options.purge_ms - waited;
}

/* ---- blocks ---- */

/* Beyond all slots, which keeps what follows free of overflow. */
static bool huge_enormous(size_t bytes)
{
    return bytes > GB_MAX_BYTES || (sizeof bytes == 8 && bytes > (size_t)1 << (GB_SLOT_LOG2S < sizeof bytes * 8 ? GB_SLOT_LOG2S - 2 : 0));
}

/* The block will be written to up to its end. What lies behind may be dirty already, where a purge was refused. */
static void slot_size(gb_slot *slot, size_t bytes)
{
    slot->bytes = bytes;
    if (slot->dirty < bytes)
        slot->dirty = bytes;
}

/* The slot serves the heap from now on. */
static void slot_use(gb_slot *slot, glebe_heap *heap, size_t bytes)
{
    slot_size(slot, bytes);
    slot->state = GB_SLOT_USED;
    slot->collected = 0;
    slot->heap = heap->number;
    slot_push(&heap->huge, slot);
}

static void *huge_take(glebe_heap *heap, size_t bytes, size_t alignment, size_t *dirty)
{
    gb_slot *slot = NULL;
    gb_lock_take(&gb_the.lock);
    if (gb_account(heap, bytes, &glebe_live.stats.huge_bytes)) {
        enum { TRIES = 256 }; /* of places that somebody else has */
        for (int i = 0; i < TRIES && (slot = slot_take(slot_log2(bytes, alignment))) != NULL && !slot_commit(slot, bytes); i++) {
            bool lost = slot->state == GB_SLOT_LOST;
            slot_give(slot);
            slot = NULL;
            if (!lost)
                break;
        }
        if (!slot)
            gb_unaccount(heap, bytes, &glebe_live.stats.huge_bytes);
    }
    if (slot) {
        *dirty = slot->dirty;
        slot_use(slot, heap, bytes);
        idle_enter(slot);
        gb_the.slots_used++;
        gb_peak_passed();
        gb_account_kept();
    }
    gb_lock_drop(&gb_the.lock);
    return slot ? (void *)gb_huge_start(slot) : NULL;
}

void *gb_huge_alloc(glebe_heap *heap, size_t bytes, size_t alignment, size_t *dirty)
{
    size_t ignored;
    dirty = dirty ? dirty : &ignored;
    if (huge_enormous(bytes) || alignment > (size_t)1 << (GB_SLOT_LOG2S < sizeof(size_t) * 8 ? GB_SLOT_LOG2S - 1 : 30))
        return gb_out_of_memory();
    bytes = gb_round_up(bytes, gb_the.page_bytes);
    gb_tick(heap);
    gb_heap_grows(heap, bytes);
    void *block = huge_take(heap, bytes, alignment, dirty);
    if (!block && gb_make_room(heap))
        block = huge_take(heap, bytes, alignment, dirty);
    return block ? block : gb_out_of_memory();
}

void *gb_huge_try(glebe_heap *heap, size_t bytes, size_t *dirty)
{
    return huge_enormous(bytes) ? NULL : huge_take(heap, gb_round_up(bytes, gb_the.page_bytes), 1, dirty);
}

void *gb_huge_grown(glebe_heap *heap, size_t bytes)
{
    size_t dirty;
    if (heap->number == 0)
        return NULL;
    gb_tick(heap);
    gb_heap_grows(heap, bytes);
    gb_lock_take(&gb_the.lock);
    bool plenty = gb_the.reserved && gb_the.slots_used < HUGE_SLOTS_MAX / 2;
    gb_lock_drop(&gb_the.lock);
    return plenty ? gb_huge_try(heap, bytes, &dirty) : NULL;
}

void gb_huge_free(gb_slot *slot)
{
    gb_lock_take(&gb_the.lock);
    glebe_heap *heap = gb_heap_at(slot->heap);
    gb_unaccount(heap, slot->bytes, &glebe_live.stats.huge_bytes);
    idle_leave(slot);
    slot_remove(&heap->huge, slot);
    gb_the.slots_used--;
    if (glebe_live.stats.huge_cached_bytes + slot->dirty > cache_most())
        slot_purge(slot, 0);
    slot_give(slot);
    gb_lock_drop(&gb_the.lock);
}

/* Moves a block to the larger slot `to` by its page tables; the lock is held. */
static bool huge_move(glebe_heap *heap, gb_slot *from, gb_slot *to, size_t bytes)
{
    if (to->dirty)
        slot_purge(to, 0);
    if (to->dirty || !slot_commit(to, bytes))
        return false;
    size_t moved = from->bytes;
    enum gb_move how = gb_port_move(gb_huge_start(from), gb_huge_start(to), moved);
    if (how == GB_PLACE_LOST)
        slot_lose(to, moved);
    if (how != GB_MOVED)
        return false;
    slot_remove(&heap->huge, from);
    if (from->dirty <= moved) /* else there is idle memory behind the block */
        from->dirty = 0;
    slot_purge(from, 0);
    slot_use(to, heap, bytes);
    return true;
}

void *gb_huge_resize(gb_slot *slot, size_t bytes)
{
    void *block = NULL;
    if (huge_enormous(bytes))
        return NULL;
    bytes = gb_round_up(bytes, gb_the.page_bytes);
    gb_lock_take(&gb_the.lock);
    glebe_heap *heap = gb_heap_at(slot->heap);
    uint64_t *statistic = &glebe_live.stats.huge_bytes;
    size_t before = slot->bytes, idle = gb_huge_idle(slot);
    if (bytes <= before) {
        gb_unaccount(heap, before - bytes, statistic);
        slot->bytes = bytes;
        slot_purge(slot, bytes);
        block = (void *)gb_huge_start(slot);
    } else if (gb_account(heap, bytes - before, statistic)) {
        if (bytes >> slot->log2 == 0 || bytes == (size_t)1 << slot->log2) {
            if (slot_commit(slot, bytes)) {
                slot_size(slot, bytes);
                block = (void *)gb_huge_start(slot);
            }
        } else if (gb_the.reserved) {
            gb_slot *to = slot_take(slot_log2(bytes, 1));
            idle_leave(slot);
            if (to && huge_move(heap, slot, to, bytes)) {
                block = (void *)gb_huge_start(to);
                slot_give(slot);
            } else if (to)
                slot_give(to);
        }
        if (block)
            gb_account_kept();
        else
            gb_unaccount(heap, bytes - before, statistic);
    }
    if (slot->state == GB_SLOT_USED && slot->idle)
        idle_changed(slot, idle);
    else if (slot->state == GB_SLOT_USED)
        idle_enter(slot);
    gb_peak_passed();
    gb_lock_drop(&gb_the.lock);
    return block;
}
