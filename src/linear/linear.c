/* The arena of linear memory: one piece that grows at its end, as in WebAssembly. It replaces arena.c.
 *
 *       base                                                  end of memory
 *     - - | blocks ... | page | blocks | page | page | blocks ... | ---> grows
 *     0   1                                                 ^ fresh: from here on never used, so zero
 *
 * All memory outside pages consists of blocks with tags (tagged.c), free or in use. The arena cuts a page out of a free
 * block, at a multiple of a slice; a returned page becomes a free block again. So the slice table only says where
 * pages are. Entries of other slices are zero, and malloc of a block outside pages writes no entry. Between two
 * pages, blocks fill the slices: 16 bytes, which hold the first block's tag, precede them, and a tag that says "in
 * use" ends them.
 *
 * No memory can be returned to the host. So growing is the last resort, and adds only as much as is missing. The slice
 * table is itself a block, and moves when memory outgrows it: no code holds a gb_page * across gb_run_take or
 * gb_memory_grow. Other code may grow memory too, and keeps its part: memory between two pieces of ours is
 * GB_RESERVED. */
#include "linear.h"
#include "tagged.h"

glebe_heap gb_heap_main;

enum { STEP_SLICES = 16 /* growth is rounded up to this */ };
enum { TABLE_LEAST = 60 /* entries */, SLICES_MAX = 1 << (32 - GB_SLICE_LOG2) };

/* Returns whether the slice is ours and holds blocks, not a page. */
static bool blocks_at(uint32_t slice)
{
    return slice < gb_peek(gb_the.slices) && gb_entry_at(slice)->kind == GB_FREE;
}

/* Makes whole slices free, merged with the free blocks on either side. */
static void slices_give(uint32_t first, uint32_t slices)
{
    uintptr_t from = gb_slice_start(first), to = gb_slice_start(first + slices);
    gb_tagged *c = gb_tagged_at(from), *end = gb_tagged_at(to);
    if (!blocks_at(first - 1)) {
        c = gb_tagged_at(from + 16);
        c->tag = GB_TAG_BEFORE_USED;
    }
    if (blocks_at(first + slices))
        end = gb_tagged_at(to + 16);
    else
        end->tag = GB_TAG_USED;
    c->tag = (uint32_t)((uintptr_t)end - (uintptr_t)c) | GB_TAG_USED | (c->tag & GB_TAG_BEFORE_USED);
    gb_the.linear.used += gb_tagged_bytes(c);
    gb_tagged_give(c);
}

static void entries_write(uint32_t first, uint32_t slices, enum gb_kind kind, uintptr_t owner)
{
    for (uint32_t i = 0; i < slices; i++) {
        gb_page *page = gb_entry_at(first + i);
        gb_store_relaxed(&page->owner, owner);
        page->back_bytes = kind == GB_FREE ? 0 : i * (uint32_t)sizeof(gb_page);
        page->kind = (uint8_t)kind;
    }
}

/* ---- growing ---- */

/* Returns whether the table has bits for objects: a build with one heap is made for its collector. */
static bool table_bits(void) { return !GB_HEAPS || gb_the.bits->collectors; }

/* Bytes of the table for each slice: its entry, and the bits of its objects. */
static size_t table_stride(void)
{
    return sizeof(gb_page) + (table_bits() ? GB_BITS_TABLES * GB_SLICE_BITS / 8 : 0);
}

/* Moves the table to `start`; the memory there is zero. No object waits for its scan: marking does not allocate. */
static void table_move(uintptr_t start, uint32_t room)
{
    gb_page *table = (gb_page *)start;
    size_t known = gb_peek(gb_the.slices), words = GB_SLICE_BITS / 64;
    uint64_t *allocated = (uint64_t *)(table + room), *unmarked = allocated + room * words,
             *waiting = unmarked + room * words;
    if (known)
        memcpy(table, gb_the.table, known * sizeof(gb_page));
    if (known && (!GB_HEAPS || gb_the.bits->allocated)) {
        memcpy(allocated, gb_the.bits->allocated, known * words * 8);
        memcpy(unmarked, gb_the.bits->unmarked, known * words * 8);
    }
    gb_the.table = table;
    gb_the.linear.table_room = room;
    gb_the.bits->allocated = table_bits() ? allocated : NULL;
    gb_the.bits->unmarked = unmarked;
    gb_the.bits->waiting = waiting;
}

/* Grows memory until `bytes` are free at its end. If the table is too short then, puts a new one behind those bytes, so
 * that a block before them can grow. The new table has room for half as many slices again, if there is memory. Returns
 * false if there is no memory. */
bool gb_memory_grow(size_t bytes)
{
    uint32_t known = (uint32_t)gb_peek(gb_the.slices), start = known, end = known, room = gb_the.linear.table_room;
    bool tight = false;
    /* have: bytes of the last free block; lost: bytes before the first block of a new piece */
    size_t have = 0, lost = 16, table = 0;
    bytes = bytes < GB_TAGGED_LEAST ? GB_TAGGED_LEAST : bytes;
    if (known && blocks_at(known - 1)) {
        const gb_tagged *last = gb_tagged_at(gb_slice_start(known));
        have = last->tag & GB_TAG_BEFORE_USED ? 0 : last->before;
        lost = 0;
    }
    for (;;) {
        size_t need = bytes + lost + table, got = have + ((size_t)(end - start) << GB_SLICE_LOG2),
               missing = need > got ? need - got : 0;
        uint32_t least = end + (uint32_t)(missing >> GB_SLICE_LOG2) + 1 + STEP_SLICES;
        if (least >= SLICES_MAX || missing > GB_MAX_BYTES)
            return false;
        if (missing ? least > room : end > room) {
            room = least + (tight ? 0 : least / 2);
            room = room < TABLE_LEAST ? TABLE_LEAST : room;
            table = room * table_stride() + 16 + sizeof(gb_page); /* its tag, and bytes lost to its alignment */
            continue;
        }
        if (missing == 0)
            break;
        uintptr_t at = gb_port_grow(&missing);
        if (at == 0 && tight)
            return false;
        if (at == 0) { /* near the end of memory the table alone may be too large */
            tight = true;
            table = 0;
            room = gb_the.linear.table_room;
            continue;
        }
        if (end == 0)
            gb_the.base = at - GB_SLICE_BYTES; /* slice 0, the null of links, is not our memory */
        uint32_t from = (uint32_t)((at - gb_the.base) >> GB_SLICE_LOG2);
        if (from != end) { /* other code grew memory in between: no block may extend over its part */
            start = from;
            have = 0;
            lost = 16;
        }
        end = from + (uint32_t)(missing >> GB_SLICE_LOG2);
    }
    if (end > start)
        slices_give(start, end - start);
    glebe_live.stats.committed_bytes += (size_t)(end - start) << GB_SLICE_LOG2;
    gb_tagged *last = gb_tagged_at(gb_slice_start(end)), *old = known ? gb_tagged_at((uintptr_t)gb_the.table) : NULL;
    if (table) { /* the new table comes behind `bytes` of the last free block */
        gb_tagged *front = (gb_tagged *)((uintptr_t)last - last->before);
        uintptr_t place = gb_round_up(gb_tagged_start(front) + bytes, sizeof(gb_page));
        gb_tagged *c = gb_tagged_at(place);
        size_t length = room * table_stride() + 16, rest = (uintptr_t)last - (uintptr_t)c - length;
        if (rest < GB_TAGGED_LEAST)
            length += rest;
        if (gb_the.linear.fresh > place)
            memset((void *)place, 0, length);
        gb_tagged_remove(front);
        gb_tagged_add(front, (uint32_t)((uintptr_t)c - (uintptr_t)front));
        c->tag = (uint32_t)length | GB_TAG_USED;
        last->tag |= GB_TAG_BEFORE_USED;
        if (rest >= GB_TAGGED_LEAST) {
            last->tag = GB_TAG_USED;
            gb_tagged_add(gb_tagged_next(c, (uint32_t)length), (uint32_t)rest);
        }
        table_move(place, room);
        glebe_live.stats.committed_bytes += glebe_live.stats.table_bytes - length;
        glebe_live.stats.table_bytes = length;
    }
    gb_store(&gb_the.slices, end);
    if (start > known)
        entries_write(known, start - known, GB_RESERVED, 0);
    if (table && old) {
        if (gb_tagged_start(old) >= gb_the.linear.fresh)
            memset((void *)gb_tagged_start(old), 0, gb_tagged_bytes(old) - GB_TAG_BYTES);
        gb_the.linear.used += gb_tagged_bytes(old);
        gb_tagged_give(old);
    }
    return true;
}

bool gb_bits_start(glebe_gc *gc)
{
    (void)gc;
    gb_the.bits->collectors++;
    if (GB_HEAPS && gb_peek(gb_the.slices) && !gb_the.bits->allocated) {
        uint32_t room = gb_the.linear.table_room;
        gb_the.linear.table_room = 0; /* forces a new table: the old one has no room for bits */
        if (!gb_memory_grow(GB_TAGGED_LEAST)) {
            gb_the.linear.table_room = room;
            gb_the.bits->collectors--;
            return false;
        }
    }
    return true;
}

void gb_bits_end(glebe_gc *gc)
{
    (void)gc;
    gb_the.bits->collectors--;
}

bool gb_region_start(void)
{
    gb_the.ready = true;
    return true;
}

/* ---- pages ---- */

/* Returns where `bytes` fit in the free block c, at a multiple of `alignment` bytes; 0 if nowhere. Any remainder on
 * either side must be long enough for a block. */
static uintptr_t page_place(const gb_tagged *c, size_t bytes, size_t alignment)
{
    uintptr_t begin = (uintptr_t)c - GB_TAG_BYTES, behind = (uintptr_t)c + gb_tagged_bytes(c);
    bool first = begin % GB_SLICE_BYTES == 0 && !blocks_at((uint32_t)((begin - gb_the.base) >> GB_SLICE_LOG2) - 1);
    uintptr_t at = gb_round_up(first ? begin : gb_tagged_start(c), alignment);
    if (at > gb_tagged_start(c) && at - gb_tagged_start(c) < GB_TAGGED_LEAST)
        at += alignment;
    /* end: if the page ends here, the next block is the first of the piece behind it */
    uintptr_t to = at + bytes, end = behind - GB_TAG_BYTES;
    bool whole = to == end || (to == behind + GB_TAG_BYTES && gb_tagged_bytes((const gb_tagged *)behind) == 0);
    return whole || to + GB_TAG_BYTES + GB_TAGGED_LEAST <= behind ? at : 0;
}

static gb_tagged *page_find(size_t bytes, size_t alignment, uintptr_t *at)
{
    enum { LOOKS = 32 };
    uint32_t bin = gb_tagged_bin((uint32_t)bytes - 16);
    for (uint32_t word = bin / 64; word < GB_TAGGED_BINS / 64; word++)
        for (uint64_t bits = gb_the.linear.filled[word] & (word == bin / 64 ? ~(uint64_t)0 << bin % 64 : ~(uint64_t)0);
            bits; bits &= bits - 1) {
            gb_tagged *c = gb_the.linear.bins[word * 64 + gb_ctz64(bits)];
            for (int looks = LOOKS; c && looks; looks--, c = c->next)
                if ((*at = page_place(c, bytes, alignment)) != 0)
                    return c;
        }
    return NULL;
}

/* Cuts [at, at + bytes) out of the free block c for a page. Returns whether it is all zero. */
static bool page_cut(gb_tagged *c, uintptr_t at, size_t bytes)
{
    uintptr_t to = at + bytes;
    gb_tagged *behind = gb_tagged_next(c, gb_tagged_bytes(c)), *end = gb_tagged_at(at), *begin = gb_tagged_at(to + 16);
    gb_tagged_remove(c);
    if (c <= end) { /* blocks remain in front */
        end->tag = GB_TAG_USED | GB_TAG_BEFORE_USED;
        if (c < end) {
            gb_tagged_add(c, (uint32_t)((uintptr_t)end - (uintptr_t)c));
            end->tag = GB_TAG_USED;
        }
    }
    if (begin < behind)
        gb_tagged_add(begin, (uint32_t)((uintptr_t)behind - (uintptr_t)begin));
    else if (begin == behind)
        behind->tag |= GB_TAG_BEFORE_USED;
    if (gb_the.linear.fresh >= to)
        return false;
    bool zero = at >= gb_the.linear.fresh;
    gb_the.linear.fresh = to;
    if (zero) { /* zero except for the tags of the free block */
        memset((void *)at, 0, 2 * GB_TAG_BYTES + sizeof(gb_tagged));
        memset((void *)(to - GB_TAG_BYTES), 0, GB_TAG_BYTES);
    }
    return zero;
}

bool gb_run_fits(uint32_t slices)
{
    uintptr_t at;
    return page_find((size_t)slices << GB_SLICE_LOG2, GB_SLICE_BYTES, &at);
}

gb_page *gb_run_take(glebe_heap *heap, enum gb_kind kind, uint32_t slices, uint32_t alignment, bool *zero)
{
    size_t bytes = (size_t)slices << GB_SLICE_LOG2, multiple = (size_t)alignment << GB_SLICE_LOG2;
    uintptr_t at;
    if (slices >= SLICES_MAX / 2 || !gb_account(heap, bytes, gb_statistic(kind)))
        return NULL;
    gb_tagged *c;
    for (int tries = 0; (c = page_find(bytes, multiple, &at)) == NULL; tries++)
        if (tries == 0)
            gb_tagged_cool();
        else if (tries == 2 || !gb_memory_grow(bytes + multiple + 8 * GB_TAGGED_LEAST)) {
            gb_unaccount(heap, bytes, gb_statistic(kind));
            return NULL;
        }
    *zero = page_cut(c, at, bytes);
    uint32_t first = (uint32_t)((at - gb_the.base) >> GB_SLICE_LOG2);
    gb_page *page = gb_entry_at(first);
    memset(page, 0, sizeof *page);
    entries_write(first, slices, kind, gb_owner(heap, kind));
    page->heap = heap->number.n;
    page->slices = slices;
    if (kind == GB_LARGE) {
        page->state = GB_SINGLE;
        gb_list_push_last(&heap->large, page);
    }
    glebe_live.stats.pages_taken += GB_TALLIES;
    gb_account_kept();
    return page;
}

gb_page *gb_run_take_some(glebe_heap *heap, enum gb_kind kind, uint32_t least, uint32_t most, bool *zero)
{
    gb_page *page = gb_run_take(heap, kind, most, 1, zero);
    return page || least == most ? page : gb_run_take(heap, kind, least, 1, zero);
}

void gb_run_give(gb_page *page)
{
    glebe_heap *heap = gb_page_heap(page);
    uint32_t first = gb_slice_of(page), slices = page->slices;
    gb_unaccount(heap, gb_page_bytes(page), gb_statistic((enum gb_kind)page->kind));
    if (page->kind == GB_LARGE)
        gb_list_remove(&heap->large, page);
    glebe_live.stats.pages_returned += GB_TALLIES;
    slices_give(first, slices);
    entries_write(first, slices, GB_FREE, 0);
}
