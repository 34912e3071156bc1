/* Small pages: blocks of one class, free ones linked through themselves. A page and its lists belong to the thread
 * that uses the heap; other threads see only `xfree`, `bump` and the holes.
 *
 *     FRESH --> CURRENT --> FULL --[left 0: wake]--> AVAIL --> CURRENT
 *                  ^                                   |
 *                  |                               [left 0: empty]
 *                  +------------ SPARE <---------------+--> back to the arena
 *
 * malloc pops the thread free list, heap->front, and reads no page. When that list is empty the current page refills
 * it: with blocks freed to the page since, with newly carved blocks, or from a hole. A current page that has none of
 * these becomes FULL, and the AVAIL page that has waited longest takes its place; its list may be sorted then. free()
 * pushes on the page's own list and counts `left` down. It does more only when `left` is 0. */
#include "heap.h"
#include "secure.h"

/* ---- counts ---- */

/* Returns how many blocks must be freed before a full page is used again: an eighth, within bounds. */
static uint32_t page_wake(const gb_page *page)
{
    uint32_t half = page->cap / 2u, wake = page->cap / 8u;
    if (GB_WAKE_BYTES) {
        uint32_t most = (uint32_t)GB_WAKE_BYTES / gb_classes[page->cls].bytes;
        most = most > GB_WAKE_MOST ? GB_WAKE_MOST : most;
        wake = wake > most ? most : wake;
    }
    wake = wake < GB_WAKE_LEAST ? GB_WAKE_LEAST : wake;
    wake = wake > half ? half : wake;
    return wake ? wake : 1;
}

uint32_t gb_page_out(const gb_page *page)
{
    uint32_t left = (uint32_t)page->left;
    switch (page->state) {
    case GB_CURRENT: return left;
    case GB_FULL: return page->cap - page_wake(page) + left;
    case GB_AVAIL: return GB_PURGES ? left + gb_page_mark(page) : left;
    default: return 0;
    }
}

/* ---- refill: filling a thread free list ---- */

/* Links the blocks [from, to) in order, and the last of them to `chain`. Returns the first. */
static gb_block *carve(gb_page *page, uint32_t from, uint32_t to, gb_block *chain)
{
    uint32_t bytes = gb_classes[page->cls].bytes;
    gb_block *first = gb_block_at(page, from), *block = first;
    for (uint32_t i = from + 1; i < to; i++) {
        gb_block *next = (gb_block *)((uintptr_t)block + bytes);
        gb_link_set(block, next);
        block = next;
    }
    gb_link_set(block, chain);
    return first;
}

/* The secure build hands blocks out in an order that an attacker cannot guess: an inside-out shuffle of the same
 * list. */
static gb_block *carve_shuffled(gb_page *page, uint32_t from, uint32_t to, gb_block *chain)
{
    uint16_t order[GB_UNIT_BYTES / 16 + 1];
    uint64_t chance = gb_port_random();
    uint32_t n = to - from, bytes = gb_classes[page->cls].bytes;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t j = (uint32_t)((uint64_t)gb_drawn(&chance) * (i + 1) >> 31);
        order[i] = order[j];
        order[j] = (uint16_t)(from + i);
    }
    if (GB_SECURE) {
        uintptr_t start = gb_page_start(page);
        uint32_t beyond = to + gb_secure_near(page->cls); /* gb_secure_look reads that far */
        beyond = beyond < page->cap ? beyond : page->cap;
        secure_words_clear((uint64_t *)(start + (size_t)from * bytes), (uint64_t *)(start + (size_t)beyond * bytes));
        for (uint32_t i = to; i < beyond; i++)
            secure_fresh((gb_block *)(start + (size_t)i * bytes), bytes, NULL);
        for (uint32_t i = n; i-- > 0;) {
            gb_block *block = (gb_block *)(start + (size_t)order[i] * bytes);
            secure_fresh(block, bytes, chain);
            chain = block;
        }
    }
    return chain;
}

/* Carves `count` blocks, or all that remain, and puts them before `chain`. */
static gb_block *page_carve(gb_page *page, uint32_t count, gb_block *chain)
{
    uint32_t from = page->bump, to = from + count < page->cap ? from + count : page->cap;
    __atomic_store_n(&page->bump, (uint16_t)to, __ATOMIC_RELAXED); /* realloc by another thread reads it */
    page->left += (int32_t)(to - from);
    return GB_SECURE ? carve_shuffled(page, from, to, chain) : carve(page, from, to, chain);
}

/* Returns a list of blocks for the thread free list, counted as out; with `one`, a single block; NULL if the page
 * has none. Carving extends a list of fewer than GB_FEW_BLOCKS: otherwise a program that uses few blocks again and
 * again would refill each time they are used up. */
GB_INLINE gb_block *page_supply(gb_page *page, bool one)
{
    gb_block *chain = gb_page_list(page);
    if (chain && one && !GB_SECURE) {
        gb_page_list_set(page, gb_link_get(chain));
        gb_link_set(chain, NULL);
        page->left++;
        return chain;
    }
    if (chain) {
        uint32_t holes = GB_PURGES && page->holes ? gb_hole_blocks(page, page->holes) : 0,
                 count = page->bump - holes - (uint32_t)page->left;
        gb_page_list_set(page, NULL);
        page->left = (int32_t)(page->bump - holes);
        return count < GB_FEW_BLOCKS && page->bump < page->cap ? page_carve(page, GB_FEW_BLOCKS - count, chain) : chain;
    }
    if (page->bump < page->cap)
        return page_carve(page,
            one || gb_classes[page->cls].bytes > GB_UNIT_BYTES
                ? 1
                : (uint32_t)(GB_UNIT_BYTES / gb_classes[page->cls].bytes),
            NULL);
    return GB_PURGES && page->holes ? gb_hole_carve(page) : NULL;
}

/* ---- refill while the heap is sampled ---- */
#if GB_SAMPLES

/* Cuts a list of the page's blocks, which count as out, behind *skip of them. The rest returns to the page. Subtracts
 * those that stay from *skip. */
static gb_block *supply_cut(gb_page *page, gb_block *chain, uint32_t *skip)
{
    gb_block *last = chain, *rest;
    for (--*skip; (rest = gb_link_get(last)) != NULL && *skip > 0; --*skip)
        last = rest;
    gb_link_set(last, NULL);
    if (!rest)
        return chain;
    gb_block *end = rest;
    for (page->left--; gb_link_get(end); page->left--)
        end = gb_link_get(end);
    gb_link_set(end, page->free);
    page->free = rest;
    return chain;
}

/* Carves `count` blocks, fewer if the next sample is among them, and puts them before `chain`. */
static GB_NOINLINE gb_block *supply_carve(gb_page *page, uint32_t count, gb_block *chain, uint32_t *skip)
{
    uint32_t before = page->bump;
    chain = page_carve(page, count < *skip ? count : *skip, chain);
    *skip -= page->bump - before;
    return chain;
}

/* gb_page_supply_some for a page with `count` freed blocks, of which some may be beyond the next sample. */
static GB_NOINLINE gb_block *supply_before(gb_page *page, uint32_t count, uint32_t *skip)
{
    uint32_t most = count < *skip ? count : *skip;
    gb_block *chain = gb_page_list(page), *last = chain;
    for (uint32_t i = 1; i < most && count != most; i++) /* walks only a list with the next sample in it */
        last = gb_link_get(last);
    gb_page_list_set(page, count == most ? NULL : gb_link_get(last));
    if (count != most)
        gb_link_set(last, NULL);
    page->left += (int32_t)most;
    *skip -= most;
    bool more = count == most && most < GB_FEW_BLOCKS && *skip > 0 && page->bump < page->cap;
    return more ? supply_carve(page, GB_FEW_BLOCKS - most, chain, skip) : chain;
}

/* gb_page_supply_some for a page with holes, or without freed blocks. */
static GB_NOINLINE gb_block *supply_other(gb_page *page, uint32_t *skip)
{
    uint32_t holes = page->holes ? gb_hole_blocks(page, page->holes) : 0;
    if (gb_page_list(page))
        return supply_before(page, page->bump - holes - (uint32_t)page->left, skip);
    uint32_t bytes = gb_classes[page->cls].bytes;
    if (page->bump < page->cap)
        return supply_carve(page, bytes > GB_UNIT_BYTES ? 1 : (uint32_t)(GB_UNIT_BYTES / bytes), NULL, skip);
    gb_block *chain = holes ? gb_hole_carve(page) : NULL;
    return chain ? supply_cut(page, chain, skip) : NULL;
}

gb_block *gb_page_supply_some(gb_page *page, uint32_t *skip)
{
    gb_block *chain = gb_page_list(page);
    if (GB_UNLIKELY(!chain || page->holes))
        return supply_other(page, skip);
    uint32_t bump = page->bump, count = bump - (uint32_t)page->left;
    if (GB_UNLIKELY(count + GB_FEW_BLOCKS > *skip))
        return supply_before(page, count, skip);
    gb_page_list_set(page, NULL);
    page->left = (int32_t)bump;
    *skip -= count;
    return count >= GB_FEW_BLOCKS || bump == page->cap ? chain : supply_carve(page, GB_FEW_BLOCKS - count, chain, skip);
}
#endif

/* ---- order ---- */

enum { SORT_WORD = 64 };

/* Sets the bits of the blocks that look free: they have a mark, and a link that leads into the page, or nowhere.
 * Returns whether they are those of the page's list. They are no fewer, unless the list is damaged, and the differences
 * between each block and the next add up to the first. This reads the blocks in the order of memory, so the processor
 * waits for many of them at once; a walk of the list waits for one after another. No branches, since half would be
 * predicted wrong. Other threads may write to blocks in use meanwhile. A word that looks like a link then makes the
 * result useless. */
static __attribute__((no_sanitize_thread)) bool sort_scan(const gb_page *page, uint64_t *ready)
{
    uint32_t bytes = gb_classes[page->cls].bytes, count = 0;
    uintptr_t start = gb_page_start(page), block = start, carved = (uintptr_t)page->bump * bytes, sum = 0;
    uintptr_t end = gb_the.end & (UINTPTR_MAX >> 8); /* as gb_link_if_marked returns it */
    for (uint32_t i = 0; i < page->bump; i++, block += bytes) {
        uintptr_t next = gb_link_if_marked((const gb_block *)block), free = (next == end) | (next - start < carved);
        ready[i / SORT_WORD] |= (uint64_t)free << i % SORT_WORD;
        count += (uint32_t)free;
        sum += (block - next) & -free;
    }
    return count == page->bump - (uint32_t)page->left && sum == (uintptr_t)page->free - end;
}

/* Links the blocks of a page's list by address, so that successive allocations are neighbours in memory. If a program's
 * mistake has damaged the list, it ends where the damage begins; the blocks behind that count as out from now on. */
static gb_block *page_sort(const gb_page *page)
{
    uint64_t ready[GB_PAGE_BLOCKS_MAX / SORT_WORD]; /* bits: the block of this index is free */
    uint32_t words = (page->bump + SORT_WORD - 1u) / SORT_WORD, index;
    memset(ready, 0, words * sizeof *ready);
    bool known = GB_MARKS_LINKS && !page->holes && sort_scan(page, ready);
    if (!known)
        memset(ready, 0, words * sizeof *ready);
    for (gb_block *block = known ? NULL : gb_page_list(page); block; block = gb_link_get(block)) {
        size_t offset = (uintptr_t)block - gb_page_start(page);
        if (GB_UNLIKELY(offset >= gb_page_bytes(page) || !gb_class_exact(page->cls, offset, &index)
                || index >= page->bump || (ready[index / SORT_WORD] >> index % SORT_WORD & 1))) {
            gb_report("malloc", block, "free block of %u bytes was freed twice, or a link to it was overwritten",
                gb_classes[page->cls].bytes);
            break;
        }
        ready[index / SORT_WORD] |= (uint64_t)1 << index % SORT_WORD;
    }
    gb_block first, *last = &first;
    for (uint32_t word = 0; word < words; word++)
        for (uint64_t bits = ready[word]; bits; bits &= bits - 1) {
            gb_block *block = gb_block_at(page, word * SORT_WORD + gb_ctz64(bits));
            gb_link_change(last, block);
            last = block;
        }
    gb_link_change(last, NULL);
    return gb_link_get(&first);
}

/* Returns whether sorting pays: most blocks of the page are free, so that neighbours follow each other, and the heap is
 * larger than caches, so that it waits for memory. docs/decisions/0033 has the figures. */
static bool page_sorts(const glebe_heap *heap, const gb_page *page)
{
    enum { LEAST = 32 };
    uint32_t ready = page->bump - (uint32_t)page->left;
    return GB_SORTS && ready > LEAST && ready > page->cap / 2u && heap->small_bytes >= GB_SORTS_FROM;
}

/* ---- lists ---- */

void gb_avail_add(glebe_heap *heap, gb_page *page)
{
    page->state = GB_AVAIL;
    heap->avail_bytes += gb_page_bytes(page);
    if (GB_PURGES)
        heap->unlooked[page->cls] += page->mark == GB_UNLOOKED;
    gb_list_push_last(&heap->avail[page->cls], page);
}

void gb_avail_remove(glebe_heap *heap, gb_page *page)
{
    heap->avail_bytes -= gb_page_bytes(page);
    if (GB_PURGES)
        heap->unlooked[page->cls] -= page->mark == GB_UNLOOKED;
    gb_list_remove(&heap->avail[page->cls], page);
}

void gb_page_give(glebe_heap *heap, gb_page *page)
{
    heap->class_slices[page->cls] -= page->slices;
    heap->small_bytes -= gb_page_bytes(page);
    gb_run_give(page);
}

/* Retains an empty page, within bounds, for the next request of any class. The secure build always retains some, so
 * that blocks freed last are not the next ones handed out. */
static void page_retire(glebe_heap *heap, gb_page *page)
{
    if (!GB_PURGES || !gb_bounds_spare(heap, gb_page_bytes(page))) {
        gb_page_give(heap, page);
        return;
    }
    page->state = GB_SPARE;
    page->mark = GB_UNLOOKED;
    page->left = 0;
    heap->spare_bytes += gb_page_bytes(page);
    heap->spare_classes |= (uint64_t)1 << page->cls;
    gb_list_push_last(&heap->spare[page->cls], page);
}

static void spare_remove(glebe_heap *heap, gb_page *page)
{
    heap->spare_bytes -= gb_page_bytes(page);
    gb_list_remove(&heap->spare[page->cls], page);
    if (!heap->spare[page->cls].first.n)
        heap->spare_classes &= ~((uint64_t)1 << page->cls);
}

static void page_format(glebe_heap *heap, gb_page *page, uint32_t cls)
{
    gb_page_list_set(page, NULL);
    gb_store_relaxed(&page->xfree, 0);
    page->left = 0;
    page->cap = (uint16_t)(gb_page_bytes(page) / gb_classes[cls].bytes);
    page->bump = 0;
    page->cls = (uint8_t)cls; /* page->holes stays: it is 0 already, and the purger may read that word */
    page->mark = GB_UNLOOKED;
    heap->class_slices[cls] += page->slices;
}

/* Returns a spare page: one of this class with its free list, or one of another class, formatted anew; or NULL. */
static gb_page *spare_take(glebe_heap *heap, uint32_t cls)
{
    gb_page *page = GB_PURGES ? gb_list_first(&heap->spare[cls]) : NULL;
    if (page) {
        spare_remove(heap, page);
        return page;
    }
    if (!GB_PURGES || !heap->spare_classes || (GB_SECURE && heap->spare_bytes < (size_t)256 << 10))
        return NULL;
    page = gb_page_at(heap->spare[gb_ctz64(heap->spare_classes)].first);
    spare_remove(heap, page);
    heap->class_slices[page->cls] -= page->slices;
    while (page->holes) /* cleared under the lock: the purger may be working on them */
        gb_hole_take(page);
    page_format(heap, page, cls);
    return page;
}

/* The secure build retains its spare pages, and the medium blocks that it holds. */
void gb_heap_grows(glebe_heap *heap, size_t bytes)
{
    if (!GB_PURGES || !gb_bounds_grow(heap, bytes) || GB_SECURE)
        return;
    gb_medium_trim(heap);
    gb_spares_give(heap, UINT32_MAX);
}

gb_page *gb_page_run(glebe_heap *heap, enum gb_kind kind, uint32_t cls, bool *zero)
{
    const gb_class *c = &gb_classes[cls];
    uint32_t slices = heap->class_slices[cls] >= GB_DEMAND * c->slices ? c->slices : c->first_slices;
    gb_heap_grows(heap, (size_t)slices << GB_SLICE_LOG2);
    gb_page *page = gb_run_take_some(heap, kind, c->first_slices, slices, zero);
    if (GB_PURGES)
        gb_bounds_grew(heap);
    return page;
}

static gb_page *page_fresh(glebe_heap *heap, uint32_t cls)
{
    bool zero;
    gb_page *page = gb_page_run(heap, GB_SMALL, cls, &zero);
    if (page) {
        heap->small_bytes += gb_page_bytes(page);
        page_format(heap, page, cls);
    }
    return page;
}

/* Returns the next page to refill from, which is on no list now. */
GB_INLINE gb_page *page_next(glebe_heap *heap, uint32_t cls)
{
    if (GB_THREADS && gb_inbox_filled(heap))
        gb_inbox_drain_some(heap);
    if (GB_THREADS && !heap->avail[cls].first.n && !heap->spare_classes && gb_load_relaxed(&gb_the.abandoned.first))
        gb_abandoned_reclaim(heap, cls);
    gb_page *page = gb_list_first(&heap->avail[cls]);
    if (page) {
        gb_avail_remove(heap, page);
        if (GB_PURGES && GB_UNLIKELY(page->mark == GB_PARKED))
            gb_page_unpark(page);
        else if (GB_PURGES && GB_UNLIKELY(page->mark)) {
            page->left = (int32_t)gb_page_out(page);
            page->mark = GB_UNLOOKED;
        }
        if (page_sorts(heap, page))
            gb_page_list_set(page, page_sort(page));
        return page;
    }
    page = spare_take(heap, cls);
    return page ? page : page_fresh(heap, cls);
}

GB_COLD void gb_front_damaged(glebe_heap *heap, size_t cls)
{
    gb_report("malloc", heap->front[cls], "the link of a free block of %u bytes, which led here, was overwritten",
        gb_classes[cls].bytes);
    heap->front[cls] = gb_block_or_end(NULL);
}

/* Refills a thread free list, and returns a block. With `skip`, a constant: hands out no more than *skip blocks, and
 * subtracts their number. */
GB_INLINE void *small_supply(glebe_heap *heap, uint32_t cls, uint32_t *skip)
{
    if (!gb_front_ended(heap, cls))
        gb_front_damaged(heap, cls);
    if (GB_BORROWS && heap->borrowed[cls].first) {
        if (skip)
            --*skip;
        return gb_borrowed_take(heap, cls, skip || heap->waits);
    }
    if (GB_BORROWS)
        heap->borrowed[cls].frees = 0;
    if (GB_MIXES && heap->mixed.n && gb_mixed_supply(heap, cls, skip))
        return gb_hand_out(heap, cls, heap->front[cls]);
    gb_page *page = gb_page_if(heap->current[cls]);
    for (;;) {
        gb_block *chain = NULL;
        if (GB_SAMPLES && skip)
            chain = page ? gb_page_supply_some(page, skip) : NULL;
        else if (page)
            chain = page_supply(page, GB_PURGES && heap->waits);
        if (chain)
            return gb_hand_out(heap, cls, chain);
        if (page) {
            page->state = GB_FULL;
            page->left = (int32_t)page_wake(page);
            gb_list_push_last(&heap->full, page);
            heap->current[cls] = GB_NO_PAGE;
        }
        page = page_next(heap, cls);
        if (!page)
            return NULL;
        page->state = GB_CURRENT;
        heap->current[cls] = gb_page_id_of(page);
    }
}

/* The source of small blocks, inlined in slow.c. Requires an empty front[request->cls]. */
GB_INLINE void *gb_small_source(glebe_heap *heap, gb_request *request)
{
    return small_supply(heap, request->cls, NULL);
}

#if GB_SAMPLES
void *gb_small_counted(glebe_heap *heap, gb_request *request)
{
    uint32_t *skip = &heap->sampling.skip[request->cls];
    *skip += *skip == 0; /* the caller knows that this block is no sample */
    return small_supply(heap, request->cls, skip);
}
#endif

/* ---- freed blocks ---- */

/* Acts when `left` is 0. `coming` blocks are on the page's list and not counted yet. Returns false if no further
 * event can come from this page. */
static bool page_event(glebe_heap *heap, gb_page *page, uint32_t coming)
{
    switch (page->state) {
    case GB_FULL: {
        uint32_t out = page->cap - page_wake(page);
        gb_list_remove(&heap->full, page);
        if (out == 0) {
            page_retire(heap, page);
            return false;
        }
        if (GB_PURGES)
            page->mark = GB_UNLOOKED;
        page->left = (int32_t)out;
        if (GB_PURGES && gb_the.options.background && heap->avail_bytes + gb_page_bytes(page) > GB_TRIM_FROM)
            gb_page_mark_first(page, out);
        gb_avail_add(heap, page);
        return true;
    }
    case GB_AVAIL:
        if (GB_PURGES && page->mark > 1 && page->mark != GB_PARKED) {
            gb_page_mark_reached(heap, page, coming);
            return true;
        }
        if (page->slices == 1 && heap->avail[page->cls].first.n == heap->avail[page->cls].last.n
            && !gb_heap_abandoned(heap))
            return false; /* the class's only AVAIL page stays on its list, for the next refill */
        gb_avail_remove(heap, page);
        if (GB_PURGES && page->mark == GB_PARKED)
            gb_page_unpark(page);
        page_retire(heap, page);
        return false;
    /* the current page: all its blocks are free, and it stays current. The only current page of an abandoned heap is
     * its mixed page */
    default:
        if (GB_MIXES && gb_heap_abandoned(heap))
            gb_mixed_give(heap, false);
        return false;
    }
}

void gb_page_event(gb_page *page)
{
    page_event((glebe_heap *)gb_load_relaxed(&page->owner), page, 0);
}

void gb_page_returned(glebe_heap *heap, gb_page *page, uint32_t count)
{
    while (count >= (uint32_t)page->left) {
        count -= (uint32_t)page->left;
        page->left = 0;
        if (!page_event(heap, page, count))
            return;
    }
    page->left -= (int32_t)count;
}

bool gb_page_put(gb_page *page, gb_block *block)
{
    if (!GB_PURGES || page->mark != GB_PARKED) {
        gb_page_push(page, block);
    } else if (!gb_parked_put(page, block)) {
        gb_report_address("free", block);
        return false;
    }
    return true;
}

void gb_fronts_flush(glebe_heap *heap)
{
    if (GB_BORROWS)
        gb_borrowed_return(heap, false);
    if (GB_SAMPLES && GB_UNLIKELY(gb_sampled(heap)))
        gb_sampling_flushed(heap);
    for (uint32_t cls = 0; cls < GB_SMALL_CLASSES; cls++)
        while (gb_block_or_null(heap->front[cls])) {
            gb_block *block = heap->front[cls];
            gb_page *page = gb_page_head(gb_page_entry(block));
            heap->front[cls] = gb_block_or_end(gb_link_next(page, block));
            if (GB_BORROWS && !gb_heap_owns(heap, page))
                gb_remote_send(page, block, block, 1);
            else if (gb_page_put(page, block))
                gb_page_returned(heap, page, 1);
        }
}

bool gb_spares_give(glebe_heap *heap, uint32_t most)
{
    bool any = heap->spare_classes != 0;
    while (GB_PURGES && heap->spare_classes && most-- > 0) {
        gb_page *page = gb_page_at(heap->spare[gb_ctz64(heap->spare_classes)].first);
        spare_remove(heap, page);
        gb_page_give(heap, page);
    }
    return any;
}

/* Returns empty pages to the arena. The thread free lists are empty. */
static void empty_pages_give(glebe_heap *heap)
{
    for (uint32_t cls = 0; cls < GB_SMALL_CLASSES; cls++) {
        gb_page *current = gb_page_if(heap->current[cls]), *first = gb_list_first(&heap->avail[cls]);
        if (current && current->left == 0) {
            heap->current[cls] = GB_NO_PAGE;
            gb_page_give(heap, current);
        }
        for (gb_page *next; first; first = next) {
            next = gb_list_next(first);
            if (first->left == 0) {
                gb_avail_remove(heap, first);
                gb_page_give(heap, first);
            }
        }
    }
    if (GB_MIXES)
        gb_mixed_give(heap, false);
}

void gb_heap_settle(glebe_heap *heap)
{
    empty_pages_give(heap);
    gb_spares_give(heap, UINT32_MAX);
    for (uint32_t cls = 0; cls < GB_SMALL_CLASSES; cls++)
        if (heap->current[cls].n) {
            gb_avail_add(heap, gb_page_at(heap->current[cls]));
            heap->current[cls] = GB_NO_PAGE;
        }
}

void gb_heap_trim(glebe_heap *heap, bool looks)
{
    gb_fronts_flush(heap);
    empty_pages_give(heap);
    gb_spares_give(heap, UINT32_MAX);
    if (GB_PURGES && looks)
        gb_heap_look_all(heap);
}
