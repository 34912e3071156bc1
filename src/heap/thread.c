/* Heaps and their owners. A thread gets a heap at its first malloc; if there are many heaps, only when it allocates
 * often (common.c). When the thread ends, its heap becomes an abandoned heap, and the next new thread reclaims it in
 * O(1): pages name their owner by the heap's address, so their entries do not change. A heap that needs pages takes
 * some from abandoned heaps before it grows.
 *
 *     THREAD --(thread ends)--> ABANDONED --(thread begins)--> THREAD       OWNED: glebe_heap_create; gb_heap_abandon
 *        |                                                                  makes it ABANDONED
 *        |
 *        +--(in the child of a fork by another thread)--> DEAD: may have stopped between two stores; not used again
 *
 * The owner of a DEAD heap may have stopped anywhere, so nothing that it wrote without a lock is trusted: its thread
 * free lists, page lists and counts are lost. A page of such a heap still returns to the arena when other threads
 * have freed every block that fits in it: then no block of it can be in use.
 *
 * Abandoned heaps are a stack. abandoned.lock guards it, and is taken before the region's lock. */
#include "heap.h"

#if GB_CLASS_COPIES
#define GB_CLASS_SMALL(c) c, c, c, c, c, c, c, c, c, c, c, c, c, c, c, c,
gb_heap_slot gb_slot_none = {.classes = {GB_ZERO_CLASS, GB_CLASS_SMALL_LOOKUP(GB_CLASS_SMALL)}};
#undef GB_CLASS_SMALL
#else
gb_heap_slot gb_slot_none;
#endif
GB_TLS glebe_heap *gb_self = &gb_heap_none;

/* ---- heaps ----
 * A new heap gets the lowest unused number. Each time HEAPS_RETIRED heaps have become unused, their memory is purged,
 * adjacent heaps in one call. */

static bool heap_commit(uint32_t number)
{
    return number < gb_the.records.max
        && gb_meta_commit(gb_the.heaps, &gb_the.committed.heaps, (number + 1) * GB_HEAP_STRIDE)
        && gb_meta_commit(gb_the.heap_bits, &gb_the.committed.heap_bits, (number / 64 + 1) * sizeof(gb_heap_bits));
}

/* Locked. Returns the number of a new heap; none if there is no memory for it. */
static gb_heap_id heap_number(void)
{
    uint32_t words = gb_the.records.made ? gb_the.records.made / 64 + 1 : 0;
    for (; gb_the.records.unused_from < words; gb_the.records.unused_from++) {
        gb_heap_bits *bits = gb_the.heap_bits + gb_the.records.unused_from;
        if (bits->unused) {
            unsigned bit = gb_ctz64(bits->unused);
            bits->unused &= bits->unused - 1;
            bits->touched &= ~((uint64_t)1 << bit);
            return (gb_heap_id){gb_the.records.unused_from * 64 + bit};
        }
    }
    return heap_commit(gb_the.records.made + 1) ? (gb_heap_id){++gb_the.records.made} : GB_NO_HEAP;
}

static bool heap_has(uint32_t number, bool touched)
{
    if (number > gb_the.records.made)
        return false;
    const gb_heap_bits *bits = gb_the.heap_bits + number / 64;
    return (touched ? bits->touched : bits->unused) >> number % 64 & 1;
}

/* Locked. Purges OS pages in which all heaps are unused. A heap that became unused may share an OS page with adjacent
 * heaps that have been unused for longer. */
static void heaps_purge(void)
{
    uint32_t reach = (uint32_t)(gb_the.page_bytes / GB_HEAP_STRIDE) + 1;
    for (uint32_t i = 0; i <= gb_the.records.made / 64; i++)
        while (gb_the.heap_bits[i].touched) {
            uint32_t first = i * 64 + gb_ctz64(gb_the.heap_bits[i].touched), last = first, from = first, to = first + 1;
            while (first - from < reach && from > 0 && heap_has(from - 1, false))
                from--;
            for (; to - last <= reach && heap_has(to, false); to++) {
                last = heap_has(to, true) ? to : last;
                gb_the.heap_bits[to / 64].touched &= ~((uint64_t)1 << to % 64);
            }
            gb_the.heap_bits[i].touched &= ~((uint64_t)1 << first % 64);
            uintptr_t start = gb_round_up((uintptr_t)gb_heap_at((gb_heap_id){from}), gb_the.page_bytes);
            uintptr_t end = gb_round_down((uintptr_t)gb_heap_at((gb_heap_id){to}), gb_the.page_bytes);
            if (end > start)
                gb_port_purge(start, end - start, false);
        }
}

/* Copies the table of classes into a heap that becomes a thread's own, which malloc then reads. */
static void heap_serves(glebe_heap *heap)
{
    gb_heap_slot *slot = (gb_heap_slot *)heap;
    if (GB_CLASS_COPIES && slot->classes[GB_OBJECT_MAX] == 0)
        memcpy(slot->classes, gb_class_small, sizeof slot->classes);
}

glebe_heap *gb_heap_new(enum gb_heap_kind kind)
{
    glebe_heap *heap = NULL;
    gb_lock_take(&gb_the.lock);
    if (gb_region_start()) {
        gb_heap_id number = heap_number();
        if (number.n) {
            heap = gb_heap_at(number);
            memset(heap, 0, sizeof *heap);
            for (uint32_t cls = 0; GB_MARKS_LINKS && cls < GB_SMALL_CLASSES; cls++)
                heap->front[cls] = gb_block_or_end(NULL);
            heap->number = number;
            heap->kind = kind;
            heap->tick = gb_load_relaxed(&gb_the.background_state) == GB_BACKGROUND_DUE ? 1 : GB_TICK_EVENTS;
            heap->tick_cycles = gb_cycles();
            if (kind == GB_HEAP_THREAD)
                heap_serves(heap);
            /* if there are many threads, most of them hold little */
            bool small = kind >= GB_HEAP_OWNED || (kind == GB_HEAP_THREAD && number.n > GB_FEW_HEAPS);
            heap->mixed.n = GB_MIXES && small ? GB_MIXED_LATER : 0;
            if (GB_SAMPLES)
                gb_sampling_set(heap);
            gb_store_relaxed(&gb_the.records.in_use, (uint32_t)++glebe_live.stats.heaps);
        }
    }
    gb_lock_drop(&gb_the.lock);
    return heap;
}

void gb_heap_retire(glebe_heap *heap)
{
    enum { HEAPS_RETIRED = 64 };
    gb_lock_take(&gb_the.lock);
    heap->kind = GB_HEAP_UNUSED;
    uint32_t number = heap->number.n;
    gb_heap_bits *bits = gb_the.heap_bits + number / 64;
    bits->unused |= (uint64_t)1 << number % 64;
    bits->touched |= (uint64_t)1 << number % 64;
    if (number / 64 < gb_the.records.unused_from)
        gb_the.records.unused_from = number / 64;
    if (++gb_the.records.retired % HEAPS_RETIRED == 0)
        heaps_purge();
    gb_store_relaxed(&gb_the.records.in_use, (uint32_t)--glebe_live.stats.heaps);
    gb_lock_drop(&gb_the.lock);
}

glebe_heap *gb_heap_next(const glebe_heap *before)
{
    for (uint32_t number = before ? before->number.n + 1 : 1; number <= gb_the.records.made; number++)
        if ((gb_the.heap_bits[number / 64].unused >> number % 64 & 1) == 0)
            return gb_heap_at((gb_heap_id){number});
    return NULL;
}

/* ---- threads ---- */

/* Set by gb_thread_exit. Destructors of other libraries may still allocate in this thread after our own has run. From
 * then on each allocation reclaims a heap and abandons it again, so that no heap is lost. */
GB_TLS bool gb_thread_ended;

static gb_heap_id abandoned_first(void)
{
    return (gb_heap_id){gb_load_relaxed(&gb_the.abandoned.first)};
}

static glebe_heap *heap_reclaim(void)
{
    if (!gb_load_relaxed(&gb_the.abandoned.first))
        return NULL;
    gb_lock_take(&gb_the.abandoned.lock);
    gb_heap_id number = abandoned_first();
    glebe_heap *heap = number.n ? gb_heap_at(number) : NULL;
    if (heap) {
        gb_store_relaxed(&gb_the.abandoned.first, heap->next.n);
        heap->kind = GB_HEAP_THREAD;
        heap_serves(heap); /* it may have been the program's */
        if (GB_SAMPLES)
            gb_sampling_set(heap);
        glebe_live.stats.heaps_abandoned--;
        glebe_live.stats.heaps_reclaimed++;
    }
    gb_lock_drop(&gb_the.abandoned.lock);
    return heap;
}

glebe_heap *gb_thread_start(void)
{
    if (gb_self != &gb_heap_none)
        return gb_self;
    glebe_heap *heap = heap_reclaim();
    if (!heap)
        heap = gb_heap_new(GB_HEAP_THREAD);
    if (!heap)
        return NULL;
    gb_self = heap;
    if (!gb_thread_ended)
        gb_port_thread_arm(); /* may call malloc, which finds gb_self set */
    return heap;
}

/* A heap of the program's that is abandoned is from then on like a thread's. */
static void heap_disown(glebe_heap *heap)
{
    gb_lock_take(&gb_the.lock);
    gb_the.owned_bytes -= gb_heap_held(heap);
    gb_store_relaxed(&heap->kind, GB_HEAP_THREAD);
    gb_lock_drop(&gb_the.lock);
}

void gb_heap_abandon(glebe_heap *heap)
{
    if (GB_SAMPLES && heap->kind == GB_HEAP_OWNED)
        heap_disown(heap);
    gb_remote_flush(heap);
    gb_inbox_drain(heap);
    gb_fronts_flush(heap); /* the pages now know all their free blocks */
    gb_heap_settle(heap);
    gb_medium_settle(heap);
    __atomic_store_n(&heap->limit_bytes, 0, __ATOMIC_RELAXED); /* the limit was for the old owner */
    if (gb_self == heap)
        gb_self = &gb_heap_none;
    gb_lock_take(&gb_the.abandoned.lock);
    heap->kind = GB_HEAP_ABANDONED;
    heap->next = abandoned_first();
    gb_store_relaxed(&gb_the.abandoned.first, heap->number.n);
    glebe_live.stats.heaps_abandoned++;
    gb_lock_drop(&gb_the.abandoned.lock);
}

void gb_thread_exit(void)
{
    gb_thread_ended = true;
    if (gb_self != &gb_heap_none)
        gb_heap_abandon(gb_self);
}

/* The heap that this thread left and will return to. It is in use, although it is not `gb_self`. */
GB_TLS glebe_heap *gb_thread_left;

bool gb_thread_away(void)
{
    return gb_thread_left != NULL;
}

glebe_heap *gb_thread_leave(void)
{
    gb_thread_left = gb_self;
    gb_self = &gb_heap_none;
    return gb_thread_left;
}

void gb_thread_return(glebe_heap *heap)
{
    if (gb_self != &gb_heap_none)
        gb_heap_abandon(gb_self);
    gb_thread_left = NULL;
    gb_self = heap;
}

/* ---- abandoned heaps ---- */

static void avail_add(glebe_heap *heap, gb_page *page)
{
    if (page->kind == GB_SMALL)
        gb_avail_add(heap, page);
    else
        gb_list_push_last(&heap->avail[page->cls], page);
}

static void avail_remove(glebe_heap *heap, gb_page *page)
{
    if (page->kind == GB_SMALL)
        gb_avail_remove(heap, page);
    else
        gb_list_remove(&heap->avail[page->cls], page);
}

/* Moves one page to the list of AVAIL pages of its new owner. */
static bool page_reclaim(glebe_heap *from, glebe_heap *heap, gb_page *page)
{
    size_t bytes = gb_page_bytes(page), held = gb_load_relaxed(&heap->bytes);
    if (heap->limit_bytes && held + bytes > heap->limit_bytes)
        return false;
    avail_remove(from, page);
    if (page->kind == GB_SMALL && page->mark == GB_PARKED)
        gb_page_unpark(page);
    if (!gb_page_reclaim(heap, page)) {
        avail_add(from, page);
        return false;
    }
    gb_lock_take(&gb_the.lock);
    gb_store_relaxed(&from->bytes, gb_load_relaxed(&from->bytes) - bytes);
    gb_store_relaxed(&heap->bytes, gb_load_relaxed(&heap->bytes) + bytes);
    glebe_live.stats.pages_reclaimed++;
    gb_lock_drop(&gb_the.lock);
    if (page->kind == GB_SMALL) {
        from->small_bytes -= bytes;
        heap->small_bytes += bytes;
    }
    from->class_slices[page->cls] -= page->slices;
    heap->class_slices[page->cls] += page->slices;
    avail_add(heap, page);
    gb_page_accept(heap, page); /* clears QUEUED, and accepts the remote frees made meanwhile */
    return true;
}

void gb_abandoned_drain(void)
{
    enum { HEAPS = 32 };
    if (!gb_load_relaxed(&gb_the.abandoned.first) || !gb_lock_try(&gb_the.abandoned.lock))
        return;
    gb_heap_id number = gb_the.abandoned.drained;
    if (!number.n || gb_heap_at(number)->kind != GB_HEAP_ABANDONED)
        number = abandoned_first();
    for (int i = 0; number.n && i < HEAPS; i++, number = gb_heap_at(number)->next)
        if (gb_load_relaxed(&gb_heap_at(number)->inbox))
            gb_inbox_drain(gb_heap_at(number));
    gb_the.abandoned.drained = number;
    gb_lock_drop(&gb_the.abandoned.lock);
}

/* Each call continues where the last one stopped, so every abandoned heap gets its turn. */
bool gb_abandoned_reclaim(glebe_heap *heap, uint32_t cls)
{
    enum { HEAPS = 32, PAGES = 4 };
    bool wants = heap->kind == GB_HEAP_THREAD || heap->kind == GB_HEAP_COMMON;
    if (!wants || !gb_lock_try(&gb_the.abandoned.lock))
        return false;
    int pages = 0;
    gb_heap_id number = gb_the.abandoned.next, first = GB_NO_HEAP;
    for (int i = 0; i < HEAPS && pages < PAGES; i++) {
        if (!number.n || gb_heap_at(number)->kind != GB_HEAP_ABANDONED)
            number = abandoned_first();
        if (!number.n || number.n == first.n)
            break;
        first = first.n ? first : number;
        glebe_heap *abandoned = gb_heap_at(number);
        number = abandoned->next;
        if (gb_load_relaxed(&abandoned->inbox))
            gb_inbox_drain(abandoned);
        for (gb_page *page; pages < PAGES && (page = gb_list_first(&abandoned->avail[cls])) != NULL
            && page_reclaim(abandoned, heap, page);)
            pages++;
    }
    gb_the.abandoned.next = number;
    gb_lock_drop(&gb_the.abandoned.lock);
    return pages > 0;
}

/* No thread works in an abandoned heap, so it needs no thread free lists and no spare pages. One empty abandoned heap
 * is kept for the next new thread; other empty ones are retired. */
size_t gb_abandoned_trim(bool looks)
{
    size_t given = 0;
    glebe_heap *kept = NULL;
    bool one_is_empty = false;
    gb_lock_take(&gb_the.abandoned.lock);
    for (gb_heap_id number = abandoned_first(), next; number.n; number = next) {
        glebe_heap *heap = gb_heap_at(number);
        next = heap->next;
        size_t before = gb_load_relaxed(&heap->bytes);
        gb_inbox_drain(heap);
        gb_heap_trim(heap, looks);
        gb_medium_trim(heap);
        size_t after = gb_load_relaxed(&heap->bytes);
        given += before > after ? before - after : 0;
        if (after != 0 || !one_is_empty) {
            one_is_empty |= after == 0;
            kept = heap;
            continue;
        }
        if (kept)
            kept->next = next;
        else
            gb_store_relaxed(&gb_the.abandoned.first, next.n);
        glebe_live.stats.heaps_abandoned--;
        gb_heap_retire(heap);
    }
    gb_lock_drop(&gb_the.abandoned.lock);
    return given;
}

bool gb_abandoned_look(void)
{
    enum { HEAPS = 64 };
    bool more = false;
    if (!gb_load_relaxed(&gb_the.abandoned.first) || !gb_lock_try(&gb_the.abandoned.lock))
        return false;
    gb_heap_id number = gb_the.abandoned.looked;
    if (!number.n || gb_heap_at(number)->kind != GB_HEAP_ABANDONED)
        number = abandoned_first();
    for (int i = 0; number.n && i < HEAPS && !more; i++) {
        glebe_heap *abandoned = gb_heap_at(number);
        if (gb_load_relaxed(&abandoned->inbox))
            gb_inbox_drain(abandoned);
        more = gb_heap_look(abandoned);
        number = more ? number : abandoned->next;
    }
    gb_the.abandoned.looked = number;
    gb_lock_drop(&gb_the.abandoned.lock);
    return more || number.n;
}
