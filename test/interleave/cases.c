/* The vocabulary of cases.h, and what must hold of every heap. */
#include "cases.h"

/* ---- setup ---- */

static uint32_t setup_thread = IL_THREADS;

void as(uint32_t t)
{
    host_become(setup_thread, t);
    setup_thread = t;
}

void as_with_heap(uint32_t t)
{
    as(t);
    IL_CHECK(gb_self == &gb_heap_none, "thread %c has a heap already", 'A' + t);
    host_become_new(); /* another thread may have used its place, and ended */
    gb_self = gb_heap_new(GB_HEAP_THREAD);
    gb_self->tick = 1000; /* no look at the clock unless the case asks for it */
    gb_self->class_slices[gb_class_of_medium(MEDIUM)] = GB_DEMAND * 2; /* in demand: its pages are of two slices */
}

void as_end(void) { as(IL_THREADS); }

gb_page *page_of(const void *block) { return gb_page_head(gb_page_entry(block)); }

static uint64_t *far_end(void *block, uint32_t bytes) { return (uint64_t *)((char *)block + bytes - 8); }

static void hold(uint32_t t, void *block, size_t bytes)
{
    uint32_t i = the_world.count[t]++;
    IL_CHECK(block, "no memory");
    IL_CHECK(i < HELD, "cases.c: too many blocks");
    uint64_t mark = 0x5eed000000000000u + ((uint64_t)t << 32) + i;
    host_touch(block, 8, true);
    host_touch(far_end(block, (uint32_t)bytes), 8, true);
    *(uint64_t *)block = *far_end(block, (uint32_t)bytes) = mark;
    the_world.held[t][i] = block;
    the_world.bytes[t][i] = (uint32_t)bytes;
    the_world.mark[t][i] = mark;
}

static void mark_whole(uint32_t t, uint32_t i)
{
    void *block = the_world.held[t][i];
    uint32_t bytes = the_world.bytes[t][i];
    IL_CHECK(*(uint64_t *)block == the_world.mark[t][i] && *far_end(block, bytes) == the_world.mark[t][i],
        "block %u of %c was written to while in use", i, 'A' + t);
}

void check_marks(void)
{
    for (uint32_t t = 0; t < IL_THREADS; t++)
        for (uint32_t i = 0; i < the_world.count[t]; i++)
            if (the_world.held[t][i])
                mark_whole(t, i);
}

void take_for(uint32_t to, size_t bytes, uint32_t count)
{
    while (count-- > 0)
        hold(to, glebe_malloc(bytes), bytes);
}

void free_for(uint32_t t, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        glebe_free(the_world.held[t][i]);
        the_world.held[t][i] = NULL;
    }
}

/* ---- threads ---- */

void take(size_t bytes) { hold(il_thread(), glebe_malloc(bytes), bytes); }

void take_zero(size_t bytes)
{
    char *block = glebe_calloc(1, bytes);
    for (size_t i = 0; block && i < bytes; i += 8)
        IL_CHECK(*(uint64_t *)(block + i) == 0, "calloc's block is not zero at %zu", i);
    hold(il_thread(), block, bytes);
}

void give(uint32_t i)
{
    uint32_t t = il_thread();
    void *block = the_world.held[t][i];
    IL_CHECK(block, "cases.c: given already");
    mark_whole(t, i);
    host_touch(block, 8, true);
    host_touch(far_end(block, the_world.bytes[t][i]), 8, true);
    the_world.held[t][i] = NULL;
    glebe_free(block);
}

void give_all(void)
{
    for (uint32_t i = 0; i < the_world.count[il_thread()]; i++)
        if (the_world.held[il_thread()][i])
            give(i);
}

/* ---- what must hold ---- */

enum { PAGES = GB_CHUNK_SLICES };

/* Pages are marked when they are found in inboxes. */
static uint32_t met_pages[PAGES], met_round;

static bool is_queued(const gb_page *page)
{
    return page->kind == GB_SMALL ? (gb_load(&page->xfree) & GB_XFREE_QUEUED) != 0
                                  : (gb_load(&page->notify) & GB_NOTIFY_QUEUED) != 0;
}

static void walk_inbox(uint32_t h, gb_page_id id)
{
    for (const gb_page *page; (page = gb_page_if(id)) != NULL; id = page->inbox_next) {
        uint32_t number = id.n;
        IL_CHECK(number < PAGES, "inbox of heap %u leads to slice %u", h, number);
        IL_CHECK(met_pages[number] != met_round, "page %u is in inboxes twice", number);
        met_pages[number] = met_round;
        IL_CHECK(page->kind == GB_SMALL || page->kind == GB_MEDIUM,
            "page %u was given back while it is in heap %u's inbox", number, h);
        IL_CHECK(is_queued(page), "page %u is in an inbox, and not marked as queued", number);
    }
}

static void walk_inboxes(void)
{
    met_round++;
    for (uint32_t h = 1; h <= gb_the.records.made; h++)
        if (gb_heap_at((gb_heap_id){h})->kind != GB_HEAP_UNUSED) {
            walk_inbox(h, (gb_page_id){gb_load(&gb_heap_at((gb_heap_id){h})->inbox)});
            walk_inbox(h, gb_heap_at((gb_heap_id){h})->inbox_taken);
        }
}

static void walk_chain(const gb_page *page)
{
    uint64_t xfree = gb_load(&page->xfree);
    uint32_t count = GB_XFREE_COUNT(xfree), seen = 0;
    uintptr_t start = gb_page_start(page), first = GB_XFREE_FIRST(xfree);
    uintptr_t block = first && !gb_page_purged(page) ? start + first - 1 : 0, last = 0;
    for (; block && seen <= count; seen++) {
        IL_CHECK(block - start < (size_t)page->slices << GB_SLICE_LOG2,
            "the chain of page %u leads out of it", gb_slice_of(page));
        last = block;
        block = (uintptr_t)gb_link_get((gb_block *)block);
    }
    IL_CHECK(!last || last - start == GB_XFREE_LAST(xfree), "the chain of page %u ends elsewhere", gb_slice_of(page));
    IL_CHECK(seen == count || gb_page_purged(page), "the chain of page %u is longer or shorter than its count of %u",
        gb_slice_of(page), count);
}

void check_step(void)
{
    if (!gb_the.ready)
        return;
    walk_inboxes();
    for (uint32_t i = 0; i < PAGES; i++) {
        const gb_page *page = gb_entry_at(i);
        if (page->kind == GB_SMALL && page->back_bytes == 0)
            walk_chain(page);
    }
}

/* Where each small block is: a letter of `where`, found exactly once. Blocks of a mixed page are numbered by where they
 * begin. */
static char place_of[PAGES][GB_PAGE_BLOCKS_MAX];

static uint32_t index_of(const gb_page *page, const void *block)
{
    return gb_page_locate(page, (uintptr_t)block - gb_page_start(page)).index;
}

static bool is_carved(const gb_page *page, uint32_t index)
{
    return page->cls == GB_MIXED ? gb_mixed_class(page, (char *)gb_page_start(page) + index * 16) != GB_MIXED
        : index < page->bump;
}

static void place(const void *block, char where)
{
    const gb_page *page = page_of(block);
    uint32_t number = gb_slice_of(page), index = index_of(page, block);
    IL_CHECK(page->kind == GB_SMALL || page->kind == GB_MEDIUM, "a block (%c) of page %u, which is none", where,
        number);
    char *at = &place_of[number][index];
    IL_CHECK(*at == 0,
        "block %u of page %u is in two places: %c and %c (f free, w thread free list or retained, x sent, s slot, "
        "p purged, A-D in use)",
        index, number, *at, where);
    *at = where;
}

static void place_chain(const gb_block *block, char where)
{
    for (; block; block = gb_link_get(block))
        place(block, where);
}

static void place_heap(const glebe_heap *heap)
{
    for (uint32_t cls = 0; cls < GB_SMALL_CLASSES; cls++)
        place_chain(gb_block_or_null(heap->front[cls]), 'w');
    for (uint32_t i = 0; i < GB_CLASSES - GB_SMALL_CLASSES; i++)
        if (heap->warm[i])
            place(heap->warm[i], 'w');
    for (uint32_t i = 0; i < GB_REMOTE_SLOTS; i++)
        if (heap->remote[i].page.n)
            place_chain(heap->remote[i].first, 's');
}

static void place_page(const gb_page *page)
{
    uint64_t xfree = gb_load(&page->xfree);
    if (gb_page_purged(page)) {
        for (uint32_t i = 0; i < page->cap; i++)
            place((void *)(gb_page_start(page) + (size_t)i * gb_classes[page->cls].bytes), 'p');
        return;
    }
    if (page->kind == GB_MEDIUM) {
        for (uint32_t i = 0, bits = gb_load(&page->bits); i < page->cap; i++)
            if (bits >> i & 1)
                place((void *)(gb_page_start(page) + (size_t)i * gb_classes[page->cls].bytes), 'f');
        return;
    }
    place_chain(gb_page_list(page), 'f');
    for (uint32_t u = 0; u < GB_PAGE_UNITS && page->mark == GB_PARKED; u++)
        for (const gb_block *block = page->holes >> u & 1 || !page[2].units[u] ? NULL
                : gb_block_at(page, page[2].units[u] - 1u);
            block; block = gb_link_get(block))
            place(block, 'f'); /* no such block straddles two units */
    if (GB_XFREE_FIRST(xfree))
        place_chain((gb_block *)(gb_page_start(page) + GB_XFREE_FIRST(xfree) - 1), 'x');
    for (uint32_t i = 0; i < page->bump && page->holes; i++) { /* a block in a hole is free */
        size_t bytes = gb_classes[page->cls].bytes;
        size_t first = i * bytes >> GB_UNIT_LOG2, last = ((i + 1) * bytes - 1) >> GB_UNIT_LOG2;
        if ((page->holes >> first | page->holes >> last) & 1)
            place((void *)(gb_page_start(page) + i * bytes), 'f');
    }
}

static void check_places(void)
{
    for (uint32_t i = 0; i < PAGES; i++)
        if (gb_entry_at(i)->kind != GB_FREE)
            memset(place_of[i], 0, sizeof place_of[i]);
    for (uint32_t t = 0; t < IL_THREADS; t++)
        for (uint32_t i = 0; i < the_world.count[t]; i++)
            if (the_world.held[t][i]) {
                mark_whole(t, i);
                if (!gb_large_at(the_world.held[t][i])) /* a large block has no page */
                    place(the_world.held[t][i], (char)('A' + t));
            }
    for (uint32_t h = 1; h <= gb_the.records.made; h++)
        if (gb_heap_at((gb_heap_id){h})->kind != GB_HEAP_UNUSED)
            place_heap(gb_heap_at((gb_heap_id){h}));
    for (uint32_t i = 0; i < PAGES; i++) {
        const gb_page *page = gb_entry_at(i);
        if ((page->kind != GB_SMALL && page->kind != GB_MEDIUM) || page->back_bytes)
            continue;
        IL_CHECK(!is_queued(page) || met_pages[i] == met_round, "page %u is marked as queued, and in no inbox", i);
        place_page(page);
        uint32_t most = page->cls == GB_MIXED ? (uint32_t)gb_page_bytes(page) / 16 : page->bump;
        for (uint32_t k = 0; k < most; k++)
            IL_CHECK(place_of[i][k] || !is_carved(page, k), "block %u of page %u is lost", k, i);
    }
}

static void complain(void *context, int invariant, const void *address, const char *what)
{
    char name[64];
    host_name(name, sizeof name, address);
    il_fail("glebe_check %s: invariant %d at %s: %s", (const char *)context, invariant, name, what);
}

static void check_heaps(const char *when)
{
    glebe_check(NULL, 1, complain, (void *)(uintptr_t)when);
    for (uint32_t h = 1; h <= gb_the.records.made; h++)
        if (gb_heap_at((gb_heap_id){h})->kind != GB_HEAP_UNUSED)
            glebe_check(gb_heap_at((gb_heap_id){h}), 2, complain, (void *)(uintptr_t)when);
    check_step();
    check_places();
}

static void check_locks(void)
{
    IL_CHECK(!host_lock_held(&gb_the.lock) && !host_lock_held(&gb_the.abandoned.lock), "a lock is held at the end");
    for (uint32_t i = 0; i < GB_COMMON_HEAPS; i++)
        IL_CHECK(!host_lock_held(&gb_the.common[i].lock), "the lock of common heap %u is held at the end", i);
}

void check_quiet(void)
{
    void *when = (void *)(uintptr_t)"at the end";
    check_locks();
    glebe_check(NULL, 2, complain, when);
    for (uint32_t i = 0; i < GB_COMMON_HEAPS; i++)
        if (gb_load_relaxed(&gb_the.common[i].heap))
            glebe_check(gb_common_heap(&gb_the.common[i]), 2, complain, when);
}

void check_final(void)
{
    check_locks();
    if (!gb_the.ready)
        return;
    check_heaps("at the end");
    for (uint32_t h = 1; h <= gb_the.records.made; h++)
        if (gb_heap_at((gb_heap_id){h})->kind != GB_HEAP_UNUSED)
            gb_remote_flush(gb_heap_at((gb_heap_id){h}));
    for (uint32_t h = 1; h <= gb_the.records.made; h++)
        if (gb_heap_at((gb_heap_id){h})->kind != GB_HEAP_UNUSED)
            gb_inbox_drain(gb_heap_at((gb_heap_id){h}));
    check_heaps("after all was drained");
    for (uint32_t i = 0; i < PAGES; i++) {
        const gb_page *page = gb_entry_at(i);
        if ((page->kind == GB_SMALL || page->kind == GB_MEDIUM) && page->back_bytes == 0)
            IL_CHECK(!is_queued(page), "page %u is still marked as queued", i);
    }
}
