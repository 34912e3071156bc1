/* Huge blocks: over 1 MiB; from 256 KiB on also blocks that grew, and blocks in memory that another huge block left.
 * Each block has an extent of its own (extent.c), and starts where the extent starts. A block that grows takes free
 * space behind it. If that is too short, the block moves to a place with as much room behind it as it has bytes: its
 * page tables move, not its bytes. A block that grows by much is copied if memory is resident elsewhere and not behind
 * it. bounds.c bounds the memory retained from freed blocks. The region's lock guards all of it. */
#include "heap.h"

gb_extent *gb_huge_find(const void *address)
{
    gb_extent *extent = gb_extent_of(address);
    bool used = extent && extent->state == GB_EXTENT_USED && !extent->warm && !(GB_SAFE && extent->held);
    return used && gb_extent_start(extent) == (uintptr_t)address ? extent : NULL;
}

static void heap_push(glebe_heap *heap, gb_extent *extent)
{
    gb_links_push_first(gb_extents_linked(), &heap->huge, &extent->links);
    extent->heap = heap->number;
}

/* Records that the block may be written up to its end. */
static void huge_size(gb_extent *extent, size_t bytes)
{
    extent->bytes = bytes;
    if (extent->dirty < bytes)
        extent->dirty = bytes;
}

/* Returns the free space wanted behind a growing block of `bytes`: as much again. A block below 2 MiB gets 4 MiB in
 * all, which most blocks never exceed. */
static size_t huge_behind(size_t bytes)
{
    enum { MOST = 4 << 20 };
    return bytes < MOST / 2 ? MOST - bytes : bytes;
}

void *gb_huge_source(glebe_heap *heap, gb_request *request)
{
    gb_extent *extent = NULL;
    size_t bytes = gb_round_up(request->bytes, gb_the.page_bytes);
    gb_extent_place place = {.room = request->room, .behind = request->block ? huge_behind(bytes) : 0};
    gb_warm_return(heap);
    gb_heap_grows(heap, bytes);
    gb_lock_take(&gb_the.lock);
    if (gb_account(heap, bytes, &glebe_live.stats.huge_bytes)) {
        extent = gb_extent_take(bytes, request->alignment, &place);
        if (!extent)
            gb_unaccount(heap, bytes, &glebe_live.stats.huge_bytes);
    }
    if (extent) {
        request->dirty = extent->dirty;
        bool untouched = extent->dirty < bytes;
        huge_size(extent, bytes);
        extent->collected = request->collected;
        heap_push(heap, extent);
        gb_the.huge.blocks++;
        if (untouched)
            gb_bounds_changed();
        gb_account_kept();
    }
    gb_lock_drop(&gb_the.lock);
    gb_bounds_grew(heap);
    return extent ? (void *)gb_extent_start(extent) : NULL;
}

/* Clears [from, to), of which little is resident. */
static void sparse_clear(uintptr_t from, uintptr_t to)
{
    if (to > from && gb_port_purge(from, to - from, false) != GB_PURGE_ZERO)
        memset((void *)from, 0, to - from);
}

void gb_huge_clear(void *start, size_t bytes)
{
    uintptr_t at = (uintptr_t)start, end = at + bytes, sparse = at;
    for (uintptr_t next; at < end; at = next) {
        next = gb_round_down(at, GB_CHUNK_BYTES) + GB_CHUNK_BYTES;
        next = next < end ? next : end;
        if (next % gb_the.page_bytes == 0 && gb_port_resident(at, next - at) < (next - at) / 2)
            continue;
        sparse_clear(sparse, at);
        memset((void *)at, 0, next - at);
        sparse = next;
    }
    sparse_clear(sparse, end);
}

void gb_huge_free(gb_extent *extent)
{
    gb_lock_take(&gb_the.lock);
    glebe_heap *heap = gb_heap_at(extent->heap);
    gb_unaccount(heap, extent->bytes, &glebe_live.stats.huge_bytes);
    gb_links_remove(gb_extents_linked(), &heap->huge, &extent->links);
    gb_the.huge.blocks--;
    gb_extent_give(extent);
    gb_bounds_changed();
    gb_lock_drop(&gb_the.lock);
}

/* Asks for huge pages for a block that grows by small steps, because it is used to its end. A new or a doubled block
 * may not be. */
static void huge_pages_ask(const gb_extent *extent, size_t before, size_t bytes)
{
    uintptr_t start = gb_extent_start(extent), from = gb_round_down(start + before, GB_CHUNK_BYTES),
              to = gb_round_down(start + bytes, GB_CHUNK_BYTES);
    from = from < start ? from + GB_CHUNK_BYTES : from;
    if (bytes - before < before / 4 && to > from && glebe_live.stats.used_bytes >= GB_HUGE_BLOCKS_FROM
        && gb_the.arena.huge_pages_slow == 0 && !gb_the.options.no_huge_pages && !GB_SECURE)
        gb_port_huge_pages(from, to - from, true);
}

/* Moves a block to a larger extent by its page tables. Locked. Copying shorter blocks to idle memory is cheaper. */
static gb_extent *huge_move(glebe_heap *heap, gb_extent *from, size_t bytes)
{
    enum { MOVED_FROM = 4 << 20 };
    if (from->bytes < MOVED_FROM || gb_the.huge.moved >= GB_MOVED_MOST || GB_SECURE || from->room)
        return NULL;
    gb_extent *to = gb_extent_take(bytes, 1, &(gb_extent_place){0, huge_behind(bytes), true});
    if (!to)
        return NULL;
    size_t moved = from->bytes;
    enum gb_move how = gb_port_move(gb_extent_start(from), gb_extent_start(to), moved);
    if (how != GB_MOVED) {
        gb_extent_lost(to, how == GB_PLACE_LOST ? moved : 0);
        return NULL;
    }
    gb_links_remove(gb_extents_linked(), &heap->huge, &from->links);
    /* its first `moved` bytes read as zero now */
    from->dirty = from->dirty > moved ? from->dirty : 0;
    gb_extent_give(from);
    gb_the.huge.moved += !to->moved;
    to->moved = 1;
    heap_push(heap, to);
    return to;
}

/* Returns whether a block that grows by half or more should rather be copied to idle memory: touching a new page takes
 * about as long as copying five. A block that is not resident itself stays, since copying would touch all of it.
 * Locked. */
static bool huge_leaves(glebe_heap *heap, const gb_extent *extent, size_t bytes)
{
    enum { LEAVES_MOST = 16 << 20 };
    size_t before = extent->bytes;
    return before <= LEAVES_MOST && bytes - before > before / 5 * 2 && !extent->room && !gb_the.limited
        && !gb_extent_resident(extent, bytes) && gb_extent_idle(bytes, huge_behind(bytes))
        && gb_account_allows(heap, bytes) && gb_port_resident(gb_extent_start(extent), before) > before / 8 * 7;
}

void *gb_huge_resize(gb_extent *extent, size_t bytes, bool stays)
{
    void *block = NULL;
    if (bytes > GB_BLOCK_MAX)
        return NULL;
    bytes = gb_round_up(bytes, gb_the.page_bytes);
    gb_lock_take(&gb_the.lock);
    glebe_heap *heap = gb_heap_at(extent->heap);
    uint64_t *statistic = &glebe_live.stats.huge_bytes;
    size_t before = extent->bytes;
    if (bytes <= before) {
        gb_unaccount(heap, before - bytes, statistic);
        extent->bytes = bytes;
        gb_extent_cut(extent, bytes);
        gb_bounds_changed();
        block = (void *)gb_extent_start(extent);
    } else if ((stays || !huge_leaves(heap, extent, bytes)) && gb_account(heap, bytes - before, statistic)) {
        bool here = gb_extent_extend(extent, bytes);
        gb_extent *grown = here ? extent : stays ? NULL : huge_move(heap, extent, bytes);
        if (grown) {
            if (here)
                huge_pages_ask(grown, before, bytes);
            huge_size(grown, bytes);
            gb_bounds_changed();
            gb_account_kept();
            block = (void *)gb_extent_start(grown);
        } else
            gb_unaccount(heap, bytes - before, statistic);
    }
    gb_lock_drop(&gb_the.lock);
    return block;
}
