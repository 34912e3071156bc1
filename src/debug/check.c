/* glebe_check: walks everything and reports each broken invariant by its number in docs/invariants.md. It allocates
 * nothing and changes nothing, except the links of pools' free objects while it walks them. The caller ensures that no
 * thread uses the heaps meanwhile. The check holds all locks, which stops the background thread.
 *
 * This file checks pages, pools and heaps; check_region.c checks chunks and extents, linear/check_region.c slices and
 * blocks with tags, check_gc.c a collector's objects. */
#include "check.h"

void gb_check_fail(gb_check *check, int invariant, const void *address, const char *what)
{
    check->broken++;
    if (check->report)
        check->report(check->context, invariant, address, what);
}

void gb_check_zero(gb_check *check, const void *memory, size_t bytes, const char *what)
{
    const uintptr_t *word = memory, *end = word + bytes / sizeof *word;
    while (word < end && *word == 0)
        word++;
    CHECK(word == end, 6, word, what);
}

/* ---- pages ---- */

static bool check_block(
    gb_check *check, const gb_page *page, const gb_block *block, uint32_t cls_least, const char *what)
{
    size_t offset = (uintptr_t)block - gb_page_start(page);
    gb_place at = offset < gb_page_bytes(page) ? gb_page_locate(page, offset) : (gb_place){.carved = false};
    bool ok = at.carved && at.inside == 0;
    CHECK(ok && at.cls >= cls_least, 3, block, what);
    return ok;
}

/* Returns the length of a list of free blocks; 0, after a report, if a block is not of the page or occurs twice. */
static uint32_t check_chain(gb_check *check, const gb_page *page, const gb_block *block, uint64_t *seen)
{
    uint32_t length = 0;
    for (; block; block = gb_link_get(block), length++) {
        if (!check_block(check, page, block, 0, "a link leads to no block of the page"))
            return 0;
        uint32_t index = gb_page_locate(page, (uintptr_t)block - gb_page_start(page)).index;
        if (gb_bit(seen, index)) {
            gb_check_fail(check, 3, block, "a free block is in two lists");
            return 0;
        }
        gb_bit_set(seen, index);
    }
    return length;
}

/* Checks each unit's count of blocks in use. Returns how many blocks on a parked page's lists touch no hole. */
static uint32_t check_parked(gb_check *check, const gb_page *page, uint64_t *seen)
{
    size_t bytes = gb_classes[page->cls].bytes;
    uint32_t listed = 0, live[GB_PAGE_UNITS] = {0};
    CHECK(page->slices == GB_BIG_PAGE_SLICES && page->bump == page->cap && !gb_page_list(page), 2, page,
        "a parked page is short, has blocks to carve, or has a free list");
    for (uint32_t u = 0; u < GB_PAGE_UNITS; u++)
        if (!(page->holes >> u & 1) && page[2].units[u])
            check_chain(check, page, gb_block_at(page, page[2].units[u] - 1u), seen);
    for (uint32_t i = 0; i < page->bump; i++) {
        uint32_t from = (uint32_t)(i * bytes >> GB_UNIT_LOG2), to = (uint32_t)(((i + 1) * bytes - 1) >> GB_UNIT_LOG2);
        bool in_hole = (page->holes >> from | page->holes >> to) & 1;
        listed += !in_hole && gb_bit(seen, i);
        if (in_hole || gb_bit(seen, i))
            continue;
        live[from]++;
        live[to] += to != from;
    }
    for (uint32_t u = 0; u < GB_PAGE_UNITS; u++)
        CHECK(live[u] == page[1].units[u] && (live[u] == 0) == (page->holes >> u & 1), 2, page,
            "a parked page's count of a unit's blocks is wrong");
    return listed;
}

/* Returns how many blocks were carved; in a mixed page, by its map. */
static uint32_t check_carved(gb_check *check, const gb_page *page)
{
    if (!GB_MIXES || page->cls != GB_MIXED) {
        CHECK(page->bump <= page->cap && page->cap == gb_page_bytes(page) / gb_classes[page->cls].bytes, 2, page,
            "the page's count of blocks is wrong");
        return page->bump;
    }
    uint32_t carved = 0;
    CHECK(page->bump <= page->cap, 2, page, "the page's count of blocks is wrong");
    for (size_t offset = 0; offset < gb_page_bytes(page); offset += 8)
        carved += gb_mixed_class(page, (void *)(gb_page_start(page) + offset)) != GB_MIXED;
    return carved;
}

static void check_small(gb_check *check, const gb_page *page)
{
    uint32_t carved = check_carved(check, page);
    CHECK(page->left >= 0, 2, page, "the count of blocks out is negative");
    CHECK((page->punched & ~page->holes) == 0, 2, page, "a unit is marked purged but is no hole");
    if (check->level < 2)
        return;
    uint64_t seen[GB_PAGE_BLOCKS_MAX / 64] = {0};
    uint64_t xfree = gb_load(&page->xfree);
    uint32_t local = check_chain(check, page, gb_page_list(page), seen), remote = 0,
             holes = GB_PURGES && page->holes ? gb_hole_blocks(page, page->holes) : 0;
    if (page->state == GB_AVAIL && page->mark == GB_PARKED)
        local = check_parked(check, page, seen);
    if (xfree & GB_XFREE_PURGED)
        remote = page->cap;
    else if (GB_XFREE_FIRST(xfree))
        remote = check_chain(check, page, (gb_block *)(gb_page_start(page) + GB_XFREE_FIRST(xfree) - 1), seen);
    CHECK(remote == GB_XFREE_COUNT(xfree), 5, page, "the count of remote frees is wrong");
    CHECK(GB_SECURE || !remote || (xfree & GB_XFREE_PURGED)
            || gb_link_whole((gb_block *)(gb_page_start(page) + GB_XFREE_LAST(xfree))) == gb_block_or_end(NULL),
        5, page, "the last of the remote frees is not the last");
    CHECK(!GB_XFREE_FIRST(xfree) || (xfree & GB_XFREE_QUEUED), 5, page,
        "a page with remote frees is not queued");
    bool whole = remote == page->cap && page->cls != GB_MIXED;
    CHECK(whole == ((xfree & GB_XFREE_WHOLE) != 0), 5, page, "the flag WHOLE disagrees with the remote frees");
    uint32_t out = gb_page_out(page);
    CHECK(local + holes + out == carved, 2, page,
        "blocks free, in holes and out do not add up to the blocks carved");
    CHECK(remote <= out, 2, page, "there are more remote frees than blocks out");
}

static void check_medium(gb_check *check, const gb_page *page)
{
    uint32_t all = gb_medium_all(page), bits = gb_load(&page->bits), notified = GB_NOTIFY_COUNT(gb_load(&page->notify));
    if (gb_page_purged(page)) {
        CHECK(bits == 0 && notified == (uint32_t)page->out, 2, page, "a purged page holds blocks in use");
        return;
    }
    CHECK((bits & ~all) == 0, 2, page, "a bit past the last block is set");
    int32_t out = (int32_t)(page->cap - gb_popcount32(bits) + notified);
    /* a thread that did not survive fork may have set a block's bit and not counted it */
    CHECK(out == page->out || (gb_the.heaps_dead && out < page->out), 2, page,
        "the bits and the count of blocks out differ");
    /* frees that the owner has not accepted move the page then; it may have claimed their blocks before, uncounted */
    CHECK(page->state != GB_FULL || page->out == page->cap || notified, 4, page,
        "a page with free blocks is on the list of full ones");
    CHECK((bits & ~gb_load(&page->dirty) & gb_load(&page->idle)) == 0, 6, page, "a block is idle and zero at once");
    if (check->level < 2)
        return;
    for (uint32_t i = 0, clean = bits & ~gb_load(&page->dirty); i < page->cap; i++)
        if (clean >> i & 1)
            gb_check_zero(check, (const char *)gb_page_start(page) + (size_t)i * gb_classes[page->cls].bytes,
                gb_classes[page->cls].bytes, "a block that is marked zero is not zero");
}

/* ---- heaps ---- */

static size_t check_page(gb_check *check, const gb_page *page)
{
    if (page->kind == GB_SMALL)
        check_small(check, page);
    else if (page->kind == GB_MEDIUM)
        check_medium(check, page);
    check->purged_bytes += gb_page_purged(page) ? gb_page_bytes(page) : 0;
    return gb_page_bytes(page);
}

/* Checks the pages on a list, which must have this state, and returns their bytes. */
static size_t check_list(
    gb_check *check, const glebe_heap *heap, const gb_list *list, enum gb_state state, uint32_t cls)
{
    size_t bytes = 0;
    gb_page_id before = GB_NO_PAGE;
    uint32_t bound = (uint32_t)gb_load_relaxed(&gb_the.slices);
    for (gb_page *page = gb_list_first(list); page; page = gb_list_next(page)) {
        CHECK(bound-- > 0, 4, page, "a list of pages has no end");
        CHECK(page->prev.n == before.n, 4, page, "a list's forward and back links differ");
        CHECK(page->state == state, 4, page, "a page is on the list of another state");
        CHECK(cls == GB_CLASSES || page->cls == cls, 4, page, "a page is on another class's list");
        CHECK(gb_heap_owns(heap, page), 4, page, "a page is on another heap's list");
        if (bound == 0)
            break;
        bytes += check_page(check, page);
        before = gb_page_id_of(page);
    }
    CHECK(list->last.n == before.n, 4, heap, "a list does not end with its last page");
    return bytes;
}

/* Checks one of a heap's free lists of a class: the thread free list, or that of borrowed blocks. */
static void check_front(gb_check *check, const glebe_heap *heap, const gb_block *block, uint32_t cls)
{
    bool borrows = GB_BORROWS && heap->kind == GB_HEAP_THREAD;
    uint32_t bound = 1u << 20; /* more blocks than any thread free list holds */
    for (; block; block = gb_link_get(block)) {
        const gb_page *entry = gb_page_entry(block);
        if (!entry || bound-- == 0) {
            gb_check_fail(check, 3, block, "a thread free list leads out of the heap, or has no end");
            return;
        }
        const gb_page *page = gb_page_head((gb_page *)(uintptr_t)entry);
        CHECK(page->kind == GB_SMALL && (gb_heap_owns(heap, page) || borrows), 3, block,
            "a thread free list holds a block of another class");
        check_block(check, page, block, cls, "a thread free list holds an address where no block begins");
    }
}

/* ---- pools ---- */

/* Walks one list and sets bit 0 of each link: an object whose bit is set already is on the list twice. Returns how many
 * bits it set. */
static uint32_t check_pool_list(gb_check *check, const gb_pool *pool, size_t units)
{
    const void *from = &pool->lists[units];
    uint32_t count = 0;
    for (uintptr_t at = (uintptr_t)pool->lists[units]; at; count++) {
        uintptr_t *link = (uintptr_t *)at;
        if (!gb_pool_holds(pool, at, units)) {
            gb_check_fail(check, 10, from, "the link of a free object leads to no object of its size");
            break;
        }
        if (*link & 1) {
            gb_check_fail(check, 10, link, "an object is free twice, or was written to after it was freed");
            break;
        }
        from = link;
        at = *link;
        *link |= 1;
    }
    return count;
}

static void check_pool_unmark(const gb_pool *pool, size_t units, uint32_t count)
{
    for (uintptr_t at = (uintptr_t)pool->lists[units]; count > 0; at = *(uintptr_t *)at, count--)
        *(uintptr_t *)at &= ~(uintptr_t)1;
}

/* Checks that each unit is in one object (audit build). Returns the units in free objects. */
static size_t check_pool_states(gb_check *check, const gb_pool *pool, const gb_segment *segment, size_t carved)
{
    size_t free = 0;
    for (size_t i = 0; i < carved;) {
        size_t units = segment->states[i] & ~GB_POOL_USED, inside = 1;
        while (inside < units && i + inside < carved && segment->states[i + inside] == 0)
            inside++;
        CHECK(inside == units, 10, segment->start + i * pool->open.unit_bytes,
            "objects overlap, or no object is here");
        free += segment->states[i] & GB_POOL_USED ? 0 : units;
        i += inside;
    }
    return free;
}

static void check_pool(gb_check *check, const gb_pool *pool)
{
    size_t free = 0, by_state = 0, carved = 0;
    uint32_t counts[GB_POOL_UNITS_MAX + 1];
    int broken = check->broken;
    for (size_t units = 1; units <= pool->open.most_units; units++)
        free += (size_t)(counts[units] = check_pool_list(check, pool, units)) * units;
    for (size_t units = 1; units <= pool->open.most_units; units++)
        check_pool_unmark(pool, units, counts[units]);
    for (const gb_segment *segment = pool->segments; segment; segment = gb_pool_next(pool, segment)) {
        size_t units = (gb_pool_carved(pool, segment) - segment->start) / pool->open.unit_bytes;
        CHECK(gb_pool_carved(pool, segment) <= segment->end, 10, pool->fresh, "the pool carved more than it has");
        carved += units;
        if (GB_AUDIT)
            by_state += check_pool_states(check, pool, segment, units);
    }
    CHECK(free <= carved, 10, &pool->open, "more objects are free than were carved");
    CHECK(!GB_AUDIT || check->broken > broken || free == by_state, 10, &pool->open,
        "an object is neither free nor in use");
}

int glebe_pool_check(glebe_pool *pool, glebe_check_report *report, void *context)
{
    GB_ENTRY;
    gb_check state = {report, context, 2, 0, 0};
    check_pool(&state, (const gb_pool *)((uintptr_t)pool - offsetof(gb_pool, open)));
    return state.broken;
}

static void check_inbox(gb_check *check, const glebe_heap *heap, gb_page_id first)
{
    uint32_t bound = (uint32_t)gb_load_relaxed(&gb_the.slices);
    for (const gb_page *page = gb_page_if(first); page && bound-- > 0; page = gb_page_if(page->inbox_next)) {
        CHECK(page->kind == GB_SMALL ? (gb_load(&page->xfree) & GB_XFREE_QUEUED) != 0
                                     : (gb_load(&page->notify) & GB_NOTIFY_QUEUED) != 0,
            5, page, "a page in an inbox is not marked as queued");
        CHECK(gb_heap_owns(heap, page), 5, page, "a page is in another heap's inbox");
    }
    CHECK(bound != UINT32_MAX, 5, heap, "an inbox has no end");
}

void gb_check_heap(gb_check *check, const glebe_heap *heap)
{
    for (const gb_pool *pool = check->level >= 2 ? heap->pools : NULL; pool; pool = pool->next)
        check_pool(check, pool);
    size_t bytes = 0, avail = 0, spare = 0;
    check->purged_bytes = 0;
    const gb_page *mixed = GB_MIXES ? gb_mixed_page(heap) : NULL;
    if (mixed) {
        CHECK(mixed->state == GB_CURRENT && mixed->cls == GB_MIXED, 4, mixed,
            "the mixed page has another state or class");
        check_small(check, mixed);
        bytes += gb_page_bytes(mixed);
    }
    for (uint32_t cls = 0; cls < GB_CLASSES; cls++) {
        const gb_page *page = gb_page_if(heap->current[cls]);
        if (page) {
            CHECK(page->state == GB_CURRENT && page->cls == cls, 4, page,
                "the current page has another state or class");
            bytes += check_page(check, page);
        }
        size_t listed = check_list(check, heap, &heap->avail[cls], GB_AVAIL, cls);
        uint32_t unlooked = 0, most = (uint32_t)gb_load_relaxed(&gb_the.slices);
        for (page = gb_list_first(&heap->avail[cls]); page && most-- > 0; page = gb_list_next(page))
            unlooked += page->mark == GB_UNLOOKED;
        CHECK(!GB_PURGES || !gb_class_is_small(cls) || unlooked == heap->unlooked[cls], 4, heap,
            "the count of pages that were not searched for holes is wrong");
        bytes += listed;
        if (gb_class_is_small(cls)) {
            avail += listed;
            spare += check_list(check, heap, &heap->spare[cls], GB_SPARE, cls);
            CHECK((heap->spare[cls].first.n != 0) == (heap->spare_classes >> cls & 1), 4, heap,
                "the bits of classes with retained pages are wrong");
            if (check->level >= 2)
                check_front(check, heap, gb_block_or_null(heap->front[cls]), cls);
            if (check->level >= 2 && GB_BORROWS)
                check_front(check, heap, heap->borrowed[cls].first, cls);
        }
    }
    bytes += check_list(check, heap, &heap->full, GB_FULL, GB_CLASSES);
    bytes += spare;
    bytes += check_list(check, heap, &heap->large, GB_SINGLE, GB_CLASSES);
    bytes += gb_check_big(check, heap);
    bytes += heap->collected_bytes;
    CHECK(bytes - check->purged_bytes == gb_heap_held(heap), 7, heap,
        "the heap's bytes are not those of its pages and blocks");
    CHECK(avail == heap->avail_bytes, 7, heap, "the bytes of available pages are wrong");
    CHECK(spare == heap->spare_bytes, 7, heap, "the bytes of retained pages are wrong");
    check_inbox(check, heap, (gb_page_id){gb_load_relaxed(&heap->inbox)});
    check_inbox(check, heap, heap->inbox_taken);
}

/* ---- all ---- */

static size_t check_heaps(gb_check *check)
{
    size_t held = 0, owned = 0;
    for (const glebe_heap *heap = NULL; (heap = gb_heap_next(heap));) {
        held += gb_heap_held(heap);
        owned += heap->kind == GB_HEAP_OWNED ? gb_heap_held(heap) : 0;
        if (heap->kind != GB_HEAP_DEAD)
            gb_check_heap(check, heap);
    }
    CHECK(!GB_SAMPLES || owned == gb_the.owned_bytes, 7, &gb_the, "the bytes of owned heaps do not add up");
    return held;
}

int glebe_check(glebe_heap *heap, int level, glebe_check_report *report, void *context)
{
    GB_ENTRY;
    gb_check state = {report, context, level, 0, 0}, *check = &state;
    if (!gb_the.ready)
        return 0;
    gb_heaps_lock();
    if (heap)
        gb_check_heap(check, heap);
    else {
        gb_check_region(check);
        CHECK(check_heaps(check) == gb_held(), 7, &glebe_live, "the statistics do not add up");
    }
    gb_heaps_unlock();
    return state.broken;
}
