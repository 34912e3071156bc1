/* glebe_check: walks everything and names each broken invariant by its number in docs/invariants.md. It allocates
 * nothing and changes nothing. What it walks must be at rest; the region's lock is held meanwhile, so the purger is. */
#include "check.h"
#include "../linear/tagged.h"

void gb_check_fail(gb_check *check, int invariant, const void *address, const char *what)
{
    check->broken++;
    if (check->report)
        check->report(check->context, invariant, address, what);
}

/* ---- chunks ---- */

static void check_zero(gb_check *check, uint32_t slice)
{
    const uint64_t *words = (const uint64_t *)gb_slice_start(slice);
    for (size_t i = 0; i < GB_SLICE_BYTES / 8; i++)
        if (words[i] != 0) {
            gb_check_fail(check, 6, words + i, "memory that is said to be zero is not");
            return;
        }
}

static glebe_heap *check_run_heap(gb_check *check, const gb_page *page)
{
    uint32_t number = gb_load_relaxed(&page->heap);
    glebe_heap *heap = gb_heap_at(number);
    CHECK(number > 0 && number <= gb_the.heaps_made && heap->kind != GB_HEAP_UNUSED, 9, page,
        "a run belongs to a heap that is not");
    return heap;
}

/* The slices of a large block say nothing. Returns how many there are, or one. */
static uint32_t check_large(gb_check *check, const gb_chunk *chunk, const gb_page *large)
{
    uint32_t slice = gb_large_slice(large), start = slice % GB_CHUNK_SLICES;
    bool fits = large->slices >= GB_LARGE_LEAST && start + large->slices <= GB_CHUNK_SLICES;
    CHECK(fits, 1, large, "a large block is longer than its chunk, or too short");
    check_run_heap(check, large);
    for (uint32_t k = 0; fits && k < large->slices; k++) {
        const gb_page *entry = gb_page_at(slice + k);
        CHECK(!gb_set_has(chunk->free, start + k), 1, gb_slice_start(slice + k), "a slice in use is marked free");
        CHECK(entry->kind == GB_FREE && entry->back_bytes == 0 && gb_load_relaxed(&entry->owner) == 0, 1, entry,
            "the entry of a large block's slice is not a free slice's");
    }
    return fits ? large->slices : 1;
}

/* Returns its free dirty slices. */
static uint32_t check_chunk(gb_check *check, uint32_t number)
{
    gb_chunk *chunk = gb_chunk_at(number);
    uint32_t free = 0, dirty = 0, run = 0, longest = 0, larges = 0, records = 0, first = number * GB_CHUNK_SLICES;
    for (uint32_t i = 0; i < GB_CHUNK_SLICES;) {
        gb_page *page = gb_page_at(first + i);
        bool is_free = gb_set_has(chunk->free, i);
        CHECK(page->back_bytes == 0 || page->kind == GB_RESERVED, 1, page, "a slice inside a run follows no head");
        if (page->kind == GB_FREE || page->kind == GB_RESERVED) {
            const gb_page *large = page->kind == GB_FREE && !is_free ? gb_large_in(first + i) : NULL;
            CHECK(gb_load_relaxed(&page->owner) == 0, 1, page, "a free slice has an owner");
            if (large) {
                run = 0;
                larges++;
                i += check_large(check, chunk, large);
                continue;
            }
            CHECK(is_free == (page->kind == GB_FREE), 1, gb_slice_start(first + i),
                "chunk and entry differ on whether a slice is free");
            run = is_free ? run + 1 : 0;
            longest = run > longest ? run : longest;
            free += is_free;
            dirty += is_free && gb_set_has(chunk->dirty, i);
            if (is_free && check->level >= 2 && !gb_set_has(chunk->dirty, i))
                check_zero(check, first + i);
            i++;
            continue;
        }
        run = 0;
        CHECK(page->slices > 0 && i + page->slices <= GB_CHUNK_SLICES, 1, page, "a run is longer than its chunk");
        if (page->slices == 0 || i + page->slices > GB_CHUNK_SLICES)
            return dirty;
        glebe_heap *heap = check_run_heap(check, page);
        for (uint32_t k = 0; k < page->slices; k++) {
            CHECK(!gb_set_has(chunk->free, i + k), 1, gb_slice_start(first + i + k), "a slice in use is marked free");
            CHECK(page[k].back_bytes == k * sizeof(gb_page), 1, page + k, "the distance to the head is wrong");
            CHECK(page[k].kind == page->kind, 1, page + k, "slices of one run differ in kind");
            CHECK(gb_load_relaxed(&page[k].owner)
                    == (page->kind == GB_SMALL && page->flags == GB_PARKED ? 0
                                                                           : gb_owner(heap, (enum gb_kind)page->kind)),
                1, page + k, "the owner is wrong");
        }
        i += page->slices;
    }
    for (uint32_t i = 0; !GB_LINEAR && i < GB_CHUNK_SLICES; i += GB_LARGE_LEAST)
        records += gb_large_record(first + i)->kind != GB_FREE;
    CHECK(records == larges, 1, chunk, "a record says that a large block is where none is");
    CHECK(free == chunk->free_slices, 1, chunk, "the count of free slices is wrong");
    CHECK(longest == chunk->rows[GB_ROW_FREE].slices, 1, chunk, "the longest free run is wrong");
    CHECK(gb_set_longest(gb_set_both(chunk->free, chunk->dirty)) == chunk->rows[GB_ROW_DIRTY].slices, 1, chunk,
        "the longest run that is free and dirty is wrong");
    return dirty;
}

/* Chunks that are away hold nothing, and are on their list once. */
static void check_away(gb_check *check)
{
    uint32_t count = 0;
    for (uint32_t link = gb_the.away.first; link; link = gb_chunk_at(link - 1)->rows[GB_ROW_FREE].next) {
        const gb_chunk *chunk = gb_chunk_at(link - 1);
        CHECK(chunk->free_slices == 0 && chunk->rows[GB_ROW_FREE].slices == 0, 1, chunk,
            "a chunk that is away has free slices");
        for (uint32_t i = 0; i < GB_CHUNK_SLICES; i++)
            CHECK(gb_page_at((link - 1) * GB_CHUNK_SLICES + i)->kind == GB_RESERVED, 1, chunk,
                "a chunk that is away has a page");
        CHECK(chunk->rows[GB_ROW_FREE].next != 0 || gb_the.away.last == link, 1, chunk,
            "the last chunk away is not the last");
        if (++count > gb_the.chunks_away)
            break;
    }
    CHECK(count == gb_the.chunks_away, 1, &gb_the, "the count of chunks away is wrong");
}

/* ---- slices, where memory is linear ---- */

static void check_run(gb_check *check, const gb_page *page)
{
    const glebe_heap *heap = gb_heap_at(gb_load_relaxed(&page->heap));
    CHECK(heap->kind != GB_HEAP_UNUSED && heap->number == gb_load_relaxed(&page->heap), 9, page,
        "a run belongs to a heap that is not");
    for (uint32_t k = 0; k < page->slices; k++) {
        CHECK(page[k].back_bytes == k * sizeof(gb_page), 1, page + k, "the distance to the head is wrong");
        CHECK(page[k].kind == page->kind, 1, page + k, "slices of one run differ in kind");
        CHECK(gb_load_relaxed(&page[k].owner) == gb_owner(heap, (enum gb_kind)page->kind), 1, page + k,
            "the owner is wrong");
    }
}

/* A free block is in its bin, which is known to have one, and nothing is between its tags if it was never used. */
static void check_free_block(gb_check *check, const gb_tagged *c)
{
    uint32_t bin = gb_tagged_bin(gb_tagged_bytes(c)), links = 0;
    for (const gb_tagged *link = gb_the.tagged[bin]; link; link = link->next)
        links += link == c;
    CHECK(links == 1 && *c->link == c && gb_bit(gb_the.tagged_bits, bin), 4, c, "a free block is not in its bin");
    CHECK(!c->next || c->next->link == &c->next, 4, c, "a bin's links back and forth differ");
    CHECK(gb_tagged_next(c, gb_tagged_bytes(c))->before == gb_tagged_bytes(c), 1, c,
        "a free block's end does not lead to its start");
    const char *from = (const char *)(c + 1), *to = (const char *)gb_tagged_next(c, gb_tagged_bytes(c));
    if (gb_tagged_start(c) >= gb_the.fresh && check->level >= 2)
        for (; from < to; from++)
            if (*from != 0) {
                gb_check_fail(check, 6, from, "memory that is said to be zero is not");
                break;
            }
}

/* The blocks in the slices [from, to), and those in use by their heap: `of` alone counts, or NULL. */
static uint64_t check_blocks(gb_check *check, uint32_t from, uint32_t to, const glebe_heap *of)
{
    uint64_t used = 0;
    bool before_used = true;
    if (!GB_LINEAR)
        return 0;
    const gb_tagged *c = gb_tagged_at(gb_slice_start(from) + 16), *end = gb_tagged_at(gb_slice_start(to));
    for (uint32_t bytes; c != end; c = gb_tagged_next(c, bytes)) {
        bytes = gb_tagged_bytes(c);
        bool ok = bytes >= GB_TAGGED_LEAST && bytes <= (uintptr_t)end - (uintptr_t)c;
        CHECK(ok, 2, c, "a block's tag leads out of its piece of memory");
        if (!ok)
            return used;
        CHECK(before_used == ((c->tag & GB_TAG_BEFORE_USED) != 0), 2, c, "a tag is wrong about the block before");
        CHECK(before_used || c->tag & GB_TAG_USED, 2, c, "two free blocks lie side by side");
        before_used = c->tag & GB_TAG_USED;
        CHECK(!(c->tag & GB_TAG_WARM) || (before_used && c == gb_the.tagged_warm && bytes == gb_the.tagged_warm_bytes),
            2, c, "a block is warm that is not the one");
        if (!before_used && !of)
            check_free_block(check, c);
        else if (before_used && gb_tagged_start(c) != (uintptr_t)gb_the.table && (!of || gb_tagged_heap(c) == of))
            used += bytes;
    }
    CHECK(end->tag == (GB_TAG_USED | (before_used ? GB_TAG_BEFORE_USED : 0)), 2, end,
        "the tag that ends a piece of memory is wrong");
    return used;
}

static uint32_t blocks_end(uint32_t slice)
{
    while (slice < gb_load_relaxed(&gb_the.slices) && gb_page_at(slice)->kind == GB_FREE)
        slice++;
    return slice;
}

/* Bytes of a heap's blocks that are in no page. */
static uint64_t check_heap_blocks(gb_check *check, const glebe_heap *heap)
{
    uint64_t used = 0;
    uint32_t slices = (uint32_t)gb_load_relaxed(&gb_the.slices);
    for (uint32_t i = 0, end; i < slices; i = end + 1)
        if ((end = blocks_end(i)) > i)
            used += check_blocks(check, i, end, heap);
    return used;
}

static void check_linear(gb_check *check)
{
    uint32_t slices = (uint32_t)gb_load_relaxed(&gb_the.slices);
    uint64_t used = 0, ours = 0;
    for (uint32_t i = 0, length; i < slices; i += length) {
        const gb_page *page = gb_page_at(i);
        enum gb_kind kind = (enum gb_kind)page->kind;
        length = kind == GB_RESERVED ? 1 : kind == GB_FREE ? blocks_end(i) - i : page->slices;
        CHECK(kind == GB_RESERVED || page->back_bytes == 0, 1, page, "a slice inside a run follows no head");
        CHECK(length > 0 && i + length <= slices, 1, page, "a run is longer than memory");
        if (length == 0 || i + length > slices)
            return;
        if (kind == GB_FREE) {
            used += check_blocks(check, i, i + length, NULL);
            for (uint32_t k = 0; k < length; k++)
                CHECK(page[k].back_bytes == 0 && gb_load_relaxed(&page[k].owner) == 0, 1, page + k,
                    "the entry of a slice without a page is not as it was");
        } else if (kind != GB_RESERVED) {
            check_run(check, page);
            used += gb_page_bytes(page);
        }
        ours += kind == GB_RESERVED ? 0 : length;
    }
    CHECK(ours << GB_SLICE_LOG2 == glebe_live.stats.committed_bytes + glebe_live.stats.table_bytes, 7, &gb_the,
        "slices do not add up to what memory there is");
    CHECK(used == gb_held(), 7, &gb_the, "the bytes in use are not those of the pages and blocks in use");
    CHECK(slices <= gb_the.table_room || slices == 0, 7, &gb_the, "the table is too short");
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

/* The length of a chain, or 0 and a report if a node is not a block of the page or comes twice. */
static uint32_t check_chain(gb_check *check, const gb_page *page, const gb_block *block, uint64_t *seen)
{
    uint32_t length = 0;
    for (; block; block = gb_link_get(block), length++) {
        if (!check_block(check, page, block, 0, "a link leads to what is no block of the page"))
            return 0;
        uint32_t index = gb_page_locate(page, (uintptr_t)block - gb_page_start(page)).index;
        if (gb_bit(seen, index)) {
            gb_check_fail(check, 3, block, "a free block stands in two places");
            return 0;
        }
        gb_bit_set(seen, index);
    }
    return length;
}

/* The blocks on a parked page's lists that touch no hole; and each unit's count of blocks in use. */
static uint32_t check_parked(gb_check *check, const gb_page *page, uint64_t *seen)
{
    size_t bytes = gb_classes[page->cls].bytes;
    uint32_t listed = 0, live[GB_PAGE_UNITS] = {0};
    CHECK(page->slices == GB_BIG_PAGE_SLICES && page->bump == page->cap && !page->free, 2, page,
        "a parked page is not as it was parked");
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

/* The blocks that were carved; where there are many classes, by the map. */
static uint32_t check_carved(gb_check *check, const gb_page *page)
{
    if (!GB_MIXES || page->cls != GB_MIXED) {
        CHECK(page->bump <= page->cap && page->cap == gb_page_bytes(page) / gb_classes[page->cls].bytes, 2, page,
            "the page's count of blocks is wrong");
        return page->bump;
    }
    uint32_t carved = 0;
    CHECK(page->bump <= page->cap, 2, page, "the page's count of cells is wrong");
    for (size_t offset = 0; offset < gb_page_bytes(page); offset += 8)
        carved += gb_mixed_class(page, (void *)(gb_page_start(page) + offset)) != GB_MIXED;
    return carved;
}

static void check_small(gb_check *check, const gb_page *page)
{
    uint32_t carved = check_carved(check, page);
    CHECK(page->left >= 0, 2, page, "the count of blocks out is negative");
    CHECK((page->punched & ~page->holes) == 0, 2, page, "a unit was given back that is no hole");
    if (check->level < 2)
        return;
    uint64_t seen[GB_PAGE_BLOCKS_MAX / 64] = {0};
    uint64_t xfree = gb_load(&page->xfree);
    uint32_t local = check_chain(check, page, page->free, seen), remote = 0,
             holes = page->holes ? gb_hole_blocks(page, page->holes) : 0;
    if (page->state == GB_AVAIL && page->flags == GB_PARKED)
        local = check_parked(check, page, seen);
    if (xfree & GB_XFREE_PURGED)
        remote = page->cap;
    else if (GB_XFREE_FIRST(xfree))
        remote = check_chain(check, page, (gb_block *)(gb_page_start(page) + GB_XFREE_FIRST(xfree) - 1), seen);
    CHECK(remote == GB_XFREE_COUNT(xfree), 5, page, "the count of blocks freed by others is wrong");
    CHECK(!GB_XFREE_FIRST(xfree) || (xfree & GB_XFREE_QUEUED), 5, page,
        "blocks freed by others wait in a page that is not queued");
    bool whole = remote == page->cap && page->cls != GB_MIXED;
    CHECK(whole == ((xfree & GB_XFREE_WHOLE) != 0), 5, page, "the mark of a page that others freed wholly is wrong");
    uint32_t out = gb_page_out(page);
    CHECK(local + holes + out == carved, 2, page, "free, in holes and out do not add up to the blocks carved");
    CHECK(remote <= out, 2, page, "more blocks are on their way home than are out");
}

static void check_medium(gb_check *check, const gb_page *page)
{
    uint32_t all = gb_medium_all(page), bits = gb_load(&page->bits), notified = GB_NOTIFY_COUNT(gb_load(&page->notify));
    if (gb_page_purged(page)) {
        CHECK(bits == 0 && notified == (uint32_t)page->left, 2, page, "a page was purged that holds blocks in use");
        return;
    }
    CHECK((bits & ~all) == 0, 2, page, "a bit past the last block is set");
    CHECK((int32_t)(page->cap - gb_popcount32(bits) + notified) == page->left, 2, page,
        "bits and count of blocks out differ");
    CHECK(page->state != GB_FULL || page->left > page->cap - (page->cap < 8 ? 1 : page->cap / 4), 4, page,
        "a page with free blocks is on the list of full ones");
    CHECK((bits & ~gb_load(&page->dirty) & gb_load(&page->idle)) == 0, 6, page, "a block is idle and zero at once");
    if (check->level < 2)
        return;
    for (uint32_t i = 0, clean = bits & ~gb_load(&page->dirty); i < page->cap; i++)
        if (clean >> i & 1) {
            const char *block = (const char *)gb_page_start(page) + (size_t)i * gb_classes[page->cls].bytes;
            for (size_t k = 0; k < gb_classes[page->cls].bytes; k++)
                if (block[k] != 0) {
                    gb_check_fail(check, 6, block + k, "a block that is said to be zero is not");
                    break;
                }
        }
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

/* The pages on a list, which must have this state; their bytes. */
static size_t check_list(
    gb_check *check, const glebe_heap *heap, const gb_list *list, enum gb_state state, uint32_t cls)
{
    size_t bytes = 0;
    uint32_t before = 0, bound = (uint32_t)gb_load_relaxed(&gb_the.slices);
    for (uint32_t number = list->first; number; number = gb_page_at(number)->next) {
        gb_page *page = gb_page_at(number);
        CHECK(bound-- > 0, 4, page, "a list of pages has no end");
        CHECK(page->prev == before, 4, page, "a list's links back and forth differ");
        CHECK(page->state == state, 4, page, "a page is on a list that is not its state's");
        CHECK(cls == GB_CLASSES || page->cls == cls, 4, page, "a page is on another class's list");
        CHECK(gb_load_relaxed(&page->heap) == heap->number, 4, page, "a page is on another heap's list");
        if (bound == 0)
            break;
        bytes += check_page(check, page);
        before = number;
    }
    CHECK(list->last == before, 4, heap, "a list's last page is not its last");
    return bytes;
}

static void check_front(gb_check *check, const glebe_heap *heap, uint32_t cls)
{
    uint32_t bound = 1u << 20; /* a page of blocks, and sized frees */
    for (const gb_block *block = heap->front[cls]; block; block = gb_link_get(block)) {
        const gb_page *entry = gb_page_entry(block);
        if (!entry || bound-- == 0) {
            gb_check_fail(check, 3, block, "a front leads out of the heap, or has no end");
            return;
        }
        const gb_page *page = gb_page_head((gb_page *)(uintptr_t)entry);
        CHECK(page->kind == GB_SMALL && gb_load_relaxed(&page->heap) == heap->number, 3, block,
            "a front holds a block that is not its class's");
        check_block(check, page, block, cls, "a front holds what is no block of its class");
    }
}

/* ---- pools ---- */

/* Walks one list and marks what it finds by bit 0 of the link: an object that has it already is there twice. Returns
 * how many it marked. */
static uint32_t check_pool_list(gb_check *check, const gb_pool *pool, size_t units)
{
    const void *from = &pool->lists[units];
    uint32_t count = 0;
    for (uintptr_t at = (uintptr_t)pool->lists[units]; at; count++) {
        uintptr_t *link = (uintptr_t *)at;
        if (!gb_pool_holds(pool, at, units)) {
            gb_check_fail(check, 10, from, "the link of a free object leads to where no object of its size is");
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

/* Each unit is in one object (audit build). Returns those in free ones. */
static size_t check_pool_states(gb_check *check, const gb_pool *pool, const gb_span *span, size_t carved)
{
    size_t free = 0;
    for (size_t i = 0; i < carved;) {
        size_t units = span->states[i] & ~GB_POOL_USED, inside = 1;
        while (inside < units && i + inside < carved && span->states[i + inside] == 0)
            inside++;
        CHECK(inside == units, 10, span->start + i * pool->open.unit_bytes,
            "objects lie one in another, or none is here");
        free += span->states[i] & GB_POOL_USED ? 0 : units;
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
    for (const gb_span *span = pool->spans; span; span = gb_pool_next(pool, span)) {
        size_t units = (gb_pool_carved(pool, span) - span->start) / pool->open.unit_bytes;
        CHECK(gb_pool_carved(pool, span) <= span->end, 10, pool->fresh, "more was given out than the pool has");
        carved += units;
        if (GB_AUDIT)
            by_state += check_pool_states(check, pool, span, units);
    }
    CHECK(free <= carved, 10, &pool->open, "more is free than was given out");
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

static void check_inbox(gb_check *check, const glebe_heap *heap, uint32_t first)
{
    uint32_t bound = (uint32_t)gb_load_relaxed(&gb_the.slices);
    for (uint32_t number = first; number && bound-- > 0; number = gb_page_at(number)->inbox_next) {
        const gb_page *page = gb_page_at(number);
        CHECK(page->kind == GB_SMALL ? (gb_load(&page->xfree) & GB_XFREE_QUEUED) != 0
                                     : (gb_load(&page->notify) & GB_NOTIFY_QUEUED) != 0,
            5, page, "a page in an inbox is not marked as queued");
        CHECK(gb_load_relaxed(&page->heap) == heap->number, 5, page, "a page is in another heap's inbox");
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
        CHECK(mixed->state == GB_CURRENT && mixed->cls == GB_MIXED, 4, mixed, "the mixed page is not");
        check_small(check, mixed);
        bytes += gb_page_bytes(mixed);
    }
    for (uint32_t cls = 0; cls < GB_CLASSES; cls++) {
        if (heap->current[cls]) {
            const gb_page *page = gb_page_at(heap->current[cls]);
            CHECK(page->state == GB_CURRENT && page->cls == cls, 4, page, "the current page is not");
            bytes += check_page(check, page);
        }
        size_t listed = check_list(check, heap, &heap->avail[cls], GB_AVAIL, cls);
        uint32_t unlooked = 0, most = (uint32_t)gb_load_relaxed(&gb_the.slices);
        for (uint32_t number = heap->avail[cls].first; number && most-- > 0; number = gb_page_at(number)->next)
            unlooked += gb_page_at(number)->flags == 0;
        CHECK(GB_LINEAR || !gb_class_is_small(cls) || unlooked == heap->unlooked[cls], 4, heap,
            "the count of pages that were not looked at is wrong");
        bytes += listed;
        if (gb_class_is_small(cls)) {
            avail += listed;
            spare += check_list(check, heap, &heap->spare[cls], GB_SPARE, cls);
            CHECK((heap->spare[cls].first != 0) == (heap->spare_classes >> cls & 1), 4, heap,
                "the bits of spare classes are wrong");
            if (check->level >= 2)
                check_front(check, heap, cls);
        }
    }
    bytes += check_list(check, heap, &heap->full, GB_FULL, GB_CLASSES);
    bytes += spare;
    bytes += check_list(check, heap, &heap->large, GB_SINGLE, GB_CLASSES);
    for (uint32_t number = heap->huge; number; number = gb_the.extents[number].next) {
        const gb_extent *extent = gb_the.extents + number;
        CHECK(extent->state == GB_EXTENT_USED && extent->heap == heap->number, 4, gb_extent_start(extent),
            "a huge block is on another heap's list");
        bytes += extent->bytes;
    }
    bytes += heap->collected_bytes;
    if (GB_LINEAR)
        bytes += (size_t)check_heap_blocks(check, heap);
    CHECK(bytes - check->purged_bytes == gb_heap_held(heap), 7, heap,
        "the heap's bytes are not those of its pages and blocks");
    CHECK(avail == heap->avail_bytes, 7, heap, "the bytes of available pages are wrong");
    CHECK(spare == heap->spare_bytes, 7, heap, "the bytes of spare pages are wrong");
    check_inbox(check, heap, gb_load_relaxed(&heap->inbox));
    check_inbox(check, heap, heap->inbox_taken);
}

/* ---- all ---- */

static size_t check_heaps_threads(gb_check *check)
{
    size_t held = 0;
    for (const glebe_heap *heap = NULL; (heap = gb_heap_next(heap));) {
        held += gb_load_relaxed(&heap->bytes);
        if (heap->kind != GB_HEAP_DEAD)
            gb_check_heap(check, heap);
    }
    return held;
}

/* The one that malloc uses, and those that lie in its large blocks. */
static size_t check_heaps_single(gb_check *check)
{
    const glebe_heap *first = gb_heap_at(GB_HEAP_MAIN);
    size_t held = gb_heap_held(first);
    gb_check_heap(check, first);
    for (uint32_t number = first->large.first; number; number = gb_page_at(number)->next)
        if (gb_page_at(number)->cls == GB_HOLDS_HEAP) {
            held += gb_load_relaxed(&gb_heap_at(number)->bytes);
            gb_check_heap(check, gb_heap_at(number));
        }
    return held;
}

/* The idle extents, those that wait longest first. */
static void check_idle(gb_check *check, uint32_t count)
{
    uint64_t bytes = 0;
    uint32_t before = 0;
    for (uint32_t number = gb_load_relaxed(&gb_the.idle_first); number && count > 0;
        number = gb_the.extents[number].idle_next, count--) {
        const gb_extent *extent = gb_the.extents + number;
        CHECK(extent->state == GB_EXTENT_IDLE && extent->idle_prev == before, 4, gb_extent_start(extent),
            "an extent is on the list of idle ones that is not idle");
        CHECK(!before || !gb_ms_later(gb_the.extents[before].idle_ms, extent->idle_ms), 4, gb_extent_start(extent),
            "an idle extent is out of turn");
        bytes += (uint64_t)extent->granules << GB_GRANULE_LOG2;
        before = number;
    }
    CHECK(count == 0 && before == gb_the.idle_last && bytes == glebe_live.stats.huge_cached_bytes, 7, &gb_the,
        "the idle memory of huge blocks does not add up");
}

/* Free ones of a state and about one length. */
static uint32_t check_extents_listed(gb_check *check, uint32_t set)
{
    uint32_t listed = 0;
    for (uint32_t bin = 0; bin < GB_EXTENT_BINS; bin++) {
        uint32_t before = 0, number = gb_the.extent_sets[set].first[bin];
        CHECK((gb_the.extent_sets[set].filled[bin / 64] >> bin % 64 & 1) == (number != 0), 5, &gb_the,
            "extents are not found by their length");
        for (; number && listed < gb_the.extent_sets[set].count; number = gb_the.extents[number].next, listed++) {
            const gb_extent *extent = gb_the.extents + number;
            CHECK(extent->state == GB_EXTENT_IDLE + set && extent->prev == before, 5, gb_extent_start(extent),
                "an extent is on the list of another state");
            before = number;
        }
    }
    return listed;
}

/* What asked for huge pages is counted, and was committed. */
static void check_spans(gb_check *check, uint32_t top)
{
    uint32_t counts[GB_SPAN_SMALL + 1] = {0}, granules = (uint32_t)(GB_CHUNK_BYTES >> GB_GRANULE_LOG2);
    for (uint32_t span = 0; top && span <= (top - 1) / granules && gb_the.spans[span] <= GB_SPAN_SMALL; span++) {
        const gb_extent *extent = gb_extent_of((void *)(gb_the.extents_base + span * GB_CHUNK_BYTES));
        CHECK(gb_the.spans[span] == GB_SPAN_NONE || extent->state < GB_EXTENT_AWAY, 7, gb_extent_start(extent),
            "a huge page is asked for where nothing is committed");
        counts[gb_the.spans[span]]++;
    }
    CHECK(counts[GB_SPAN_HUGE] == gb_the.spans_huge && counts[GB_SPAN_SMALL] == gb_the.spans_small, 7, &gb_the,
        "the counts of huge pages are wrong");
}

/* Extents are side by side, and neighbours that are free and alike are one. */
static void check_extents(gb_check *check)
{
    uint32_t counts[GB_EXTENT_SETS] = {0}, moved = 0, used = 0, top = gb_load_relaxed(&gb_the.extents_top);
    const gb_extent *before = gb_the.extents;
    for (uint32_t number = 1; number < top; number += before->granules) {
        const gb_extent *extent = gb_the.extents + number;
        if (extent->state < GB_EXTENT_USED || extent->granules == 0 || extent->granules > top - number
            || extent[extent->granules - 1].before != extent->granules) {
            CHECK(false, 5, gb_extent_start(extent), "the table of extents is broken");
            return;
        }
        CHECK(extent->state == GB_EXTENT_USED || extent->state == GB_EXTENT_LOST || extent->state != before->state
                || extent->moved || before->moved,
            5, gb_extent_start(extent), "two free extents side by side are not one");
        CHECK(extent->state != GB_EXTENT_USED
                || (extent->bytes <= extent->committed
                    && extent->committed <= (size_t)extent->granules << GB_GRANULE_LOG2),
            5, gb_extent_start(extent), "a huge block is longer than its extent");
        if (extent->state != GB_EXTENT_USED)
            counts[extent->state - GB_EXTENT_IDLE]++;
        used += extent->state == GB_EXTENT_USED;
        moved += extent->moved;
        before = extent;
    }
    check_spans(check, top);
    for (uint32_t set = 0; set < GB_EXTENT_SETS; set++)
        CHECK(counts[set] == gb_the.extent_sets[set].count && check_extents_listed(check, set) == counts[set], 5,
            &gb_the, "the counts of extents are wrong");
    CHECK(
        moved == gb_the.extents_moved && used == gb_the.huge_blocks, 7, &gb_the, "the counts of huge blocks are wrong");
    check_idle(check, counts[0]);
}

static void check_arena(gb_check *check)
{
    size_t dirty = 0;
    if (!GB_LINEAR)
        check_extents(check);
    for (uint32_t number = 0; number < gb_the.chunks; number++)
        dirty += check_chunk(check, number);
    check_away(check);
    CHECK(dirty == gb_the.dirty_slices, 7, &gb_the, "the count of dirty free slices is wrong");
}

int glebe_check(glebe_heap *heap, int level, glebe_check_report *report, void *context)
{
    GB_ENTRY;
    gb_check state = {report, context, level, 0, 0}, *check = &state;
    if (!gb_the.ready)
        return 0;
    gb_lock_take(&gb_the.lock);
    if (heap)
        gb_check_heap(check, heap);
    else {
        const glebe_stats *s = &glebe_live.stats;
        if (GB_LINEAR)
            check_linear(check);
        else
            check_arena(check);
        size_t held = GB_THREADS ? check_heaps_threads(check) : check_heaps_single(check);
        CHECK(held == gb_held()
                && (GB_LINEAR || held == s->small_bytes + s->medium_bytes + s->large_bytes + s->huge_bytes),
            7, &glebe_live, "the statistics do not add up");
    }
    gb_lock_drop(&gb_the.lock);
    return state.broken;
}
