/* The arena where memory is one piece that grows at its end, as in WebAssembly. It takes the place of arena.c there.
 *
 *       base                                                  end of memory
 *     - - | table | page | page | free .. | large ....... | free | ---> grows
 *     0   1                                                 ^ fresh: from here on never used, so zero
 *
 * A run is taken from the shortest free run that fits; one that is free again merges with free neighbours. Nothing can be given
 * back to the host, so memory grows last of all: after the heap's spare pages went back, and by what is missing alone.
 *
 * The slice table lies in slices itself, and moves when memory outgrows it: no gb_page * is held across gb_run_take and
 * gb_run_resize. Whoever else lets memory grow keeps what he got: what lies between two pieces of ours is GB_RESERVED.
 *
 * Entries of a free run: the first has its length and links, the last the distance to the first, all say GB_FREE. */
#include "core.h"

enum { STEP_SLICES = 16 /* memory grows by so many at once, and may come with that many more */ };
enum { TABLE_LEAST = 64 /* entries */, SLICES_MAX = 1 << (32 - GB_SLICE_LOG2) };

/* ---- free runs ---- */

/* Bins 0 to 15 hold runs of 1 to 16 slices, the others half a doubling each. */
static uint32_t free_bin(uint32_t slices)
{
    if (slices <= 16)
        return slices - 1;
    unsigned log2 = gb_log2(slices), bin = 8 + 2 * log2 + (slices >> (log2 - 1) & 1);
    return bin < GB_BINS ? bin : GB_BINS - 1;
}

static void free_unlink(gb_page *run)
{
    uint32_t bin = free_bin(run->slices);
    if (run->prev)
        gb_page_at(run->prev)->next = run->next;
    else if ((gb_the.bins[bin] = run->next) == 0)
        gb_the.bins_filled &= ~((uint32_t)1 << bin);
    if (run->next)
        gb_page_at(run->next)->prev = run->prev;
}

static void free_link(uint32_t first, uint32_t slices)
{
    gb_page *run = gb_page_at(first);
    uint32_t bin = free_bin(slices);
    run->slices = slices;
    run->back_bytes = 0;
    run[slices - 1].back_bytes = (slices - 1) * (uint32_t)sizeof(gb_page);
    run->prev = 0;
    run->next = gb_the.bins[bin];
    if (run->next)
        gb_page_at(run->next)->prev = first;
    gb_the.bins[bin] = first;
    gb_the.bins_filled |= (uint32_t)1 << bin;
}

/* The free run that begins at `slice`, or ends before it; NULL if there is none. */
static gb_page *free_from(uint32_t slice)
{
    return slice < gb_peek(gb_the.slices) && gb_page_at(slice)->kind == GB_FREE ? gb_page_at(slice) : NULL;
}

static gb_page *free_before(uint32_t slice)
{
    return slice > 0 && gb_page_at(slice - 1)->kind == GB_FREE ? gb_page_head(gb_page_at(slice - 1)) : NULL;
}

static void entries_write(uint32_t first, uint32_t slices, enum gb_kind kind)
{
    for (uint32_t i = 0; i < slices; i++) {
        gb_page *page = gb_page_at(first + i);
        gb_store_relaxed(&page->owner, 0);
        page->back_bytes = i * (uint32_t)sizeof(gb_page);
        page->kind = (uint8_t)kind;
    }
}

/* Slices become free, together with what is free on either side of them. */
static void slices_give(uint32_t first, uint32_t slices)
{
    gb_page *before = free_before(first), *after = free_from(first + slices);
    for (uint32_t i = 0; i < slices; i++) {
        gb_page *page = gb_page_at(first + i);
        gb_store_relaxed(&page->owner, 0);
        page->back_bytes = 0;
        page->kind = GB_FREE;
    }
    if (after) {
        free_unlink(after);
        slices += after->slices;
    }
    if (before) {
        free_unlink(before);
        first -= before->slices;
        slices += before->slices;
    }
    free_link(first, slices);
}

/* [first, first + slices) of the free run `run` is not free any more. */
static void slices_take(gb_page *run, uint32_t first, uint32_t slices)
{
    uint32_t start = gb_page_number(run), end = start + run->slices;
    free_unlink(run);
    if (first > start)
        free_link(start, first - start);
    if (end > first + slices)
        free_link(first + slices, end - first - slices);
    if (gb_the.fresh < first + slices)
        gb_the.fresh = first + slices;
}

/* The shortest free run in which `slices` fit at a multiple of `alignment`, among those looked at; *first is where. */
static gb_page *free_find(uint32_t slices, uint32_t alignment, uint32_t *first)
{
    enum { LOOKS = 32 };
    gb_page *found = NULL;
    uint32_t bins = gb_the.bins_filled & ~(((uint32_t)1 << free_bin(slices)) - 1), origin = (uint32_t)(gb_the.base >> GB_SLICE_LOG2);
    for (; bins && !found; bins &= bins - 1) {
        uint32_t number = gb_the.bins[gb_ctz32(bins)];
        for (int looks = LOOKS; number && (looks > 0 || !found); number = gb_page_at(number)->next, looks--) {
            gb_page *run = gb_page_at(number);
            uint32_t at = (uint32_t)gb_round_up(origin + number, alignment) - origin;
            if (at - number + slices <= run->slices && (!found || run->slices < found->slices)) {
                found = run;
                *first = at;
            }
        }
    }
    return found;
}

/* ---- growing ---- */

/* Bytes of the table for each slice: its entry, and where something is collected the bits of its objects. */
static size_t table_stride(void)
{
    return sizeof(gb_page) + (gb_the.collects ? 2 * GB_SLICE_BITS / 8 : 0);
}

static uint32_t table_slices(uint32_t entries)
{
    return (uint32_t)((entries * table_stride() + GB_SLICE_BYTES - 1) >> GB_SLICE_LOG2);
}

/* The table moves to the slices [first, first + slices), which nobody has. Where it was is the caller's to give. */
static void table_move(uint32_t first, uint32_t slices)
{
    gb_page *table = (gb_page *)gb_slice_start(first);
    size_t known = gb_peek(gb_the.slices), bytes = (size_t)slices << GB_SLICE_LOG2, words = GB_SLICE_BITS / 64;
    gb_the.table_room = (uint32_t)(bytes / table_stride());
    uint64_t *allocated = (uint64_t *)(table + gb_the.table_room), *unmarked = allocated + gb_the.table_room * words;
    if (gb_the.fresh > first) /* it was in use before */
        memset(table, 0, bytes);
    if (known)
        memcpy(table, gb_the.table, known * sizeof(gb_page));
    if (known && gb_the.allocated) {
        memcpy(allocated, gb_the.allocated, known * words * 8);
        memcpy(unmarked, gb_the.unmarked, known * words * 8);
    }
    gb_the.table = table;
    gb_the.allocated = gb_the.collects ? allocated : NULL;
    gb_the.unmarked = gb_the.collects ? unmarked : NULL;
    if (gb_the.fresh < first + slices)
        gb_the.fresh = first + slices;
}

/* Lets memory grow until a run of `slices` is free at its end, and the table has room for it: else a new one, for half as many
 * again, which is room for its own slices and for what memory grows by at once too. */
static bool grow(uint32_t slices)
{
    uint32_t known = (uint32_t)gb_peek(gb_the.slices), end = known, table = 0, room = gb_the.table_room;
    gb_page *tail = free_before(known);
    uint32_t start = tail ? gb_page_number(tail) : known;
    for (;;) {
        uint32_t least = start + slices + STEP_SLICES > end ? start + slices + STEP_SLICES : end;
        if (slices >= SLICES_MAX || least >= SLICES_MAX)
            return false;
        if (end == known ? least > room : end > room) { /* `end` moves but once, unless somebody else comes between */
            uint32_t want = least + least / 2 < TABLE_LEAST ? TABLE_LEAST : least + least / 2;
            table = table_slices(want);
            room = (uint32_t)(((size_t)table << GB_SLICE_LOG2) / table_stride());
        }
        if (end - start >= slices + table)
            break;
        size_t bytes = (size_t)(start + slices + table - end) << GB_SLICE_LOG2;
        uintptr_t at = gb_port_grow(&bytes);
        if (at == 0)
            return false;
        if (end == 0)
            gb_the.base = at - GB_SLICE_BYTES; /* slice 0, the null of links, is somebody else's */
        uint32_t from = (uint32_t)((at - gb_the.base) >> GB_SLICE_LOG2);
        if (from != end) /* somebody else let it grow in between: no run reaches over what is his */
            start = from;
        end = from + (uint32_t)(bytes >> GB_SLICE_LOG2);
    }
    uint32_t old = known ? (uint32_t)(((uintptr_t)gb_the.table - gb_the.base) >> GB_SLICE_LOG2) : 0, old_slices = (uint32_t)(glebe_live.stats.table_bytes >> GB_SLICE_LOG2);
    uint32_t behind = start + slices; /* the table comes there, so that a block in front of the run can grow */
    if (tail && gb_page_number(tail) == start)
        free_unlink(tail);
    if (table)
        table_move(behind, table);
    gb_store(&gb_the.slices, end);
    if (start > known)
        entries_write(known, start - known, GB_RESERVED);
    glebe_live.stats.committed_bytes += (size_t)(end - (start > known ? start : known)) << GB_SLICE_LOG2;
    if (!table) {
        slices_give(start, end - start);
        return true;
    }
    glebe_live.stats.committed_bytes -= (size_t)table << GB_SLICE_LOG2;
    glebe_live.stats.table_bytes = (size_t)table << GB_SLICE_LOG2;
    entries_write(behind, table, GB_RESERVED);
    slices_give(start, slices);
    if (behind + table < end)
        slices_give(behind + table, end - behind - table);
    if (old) {
        glebe_live.stats.committed_bytes += (size_t)old_slices << GB_SLICE_LOG2;
        slices_give(old, old_slices);
    }
    return true;
}

bool gb_bits_start(void)
{
    gb_the.collects = true;
    if (gb_peek(gb_the.slices) && !gb_the.allocated) {
        uint32_t room = gb_the.table_room;
        gb_the.table_room = 0; /* the table is too short, however long it is */
        if (!grow(1)) {
            gb_the.table_room = room;
            gb_the.collects = false;
        }
    }
    return gb_the.collects;
}

bool gb_region_start(void)
{
    gb_the.ready = true;
    return true;
}

/* ---- runs ---- */

gb_page *gb_run_take(glebe_heap *heap, enum gb_kind kind, uint32_t slices, uint32_t alignment, bool *zero)
{
    size_t bytes = (size_t)slices << GB_SLICE_LOG2;
    uint32_t first;
    if (!gb_account(heap, bytes, gb_statistic(kind)))
        return NULL;
    gb_page *run = free_find(slices, alignment, &first);
    if (!run && gb_spares_give(heap))
        run = free_find(slices, alignment, &first);
    if (!run && grow(slices + alignment - 1))
        run = free_find(slices, alignment, &first);
    if (!run) {
        gb_unaccount(heap, bytes, gb_statistic(kind));
        return NULL;
    }
    *zero = first >= gb_the.fresh;
    slices_take(run, first, slices);
    gb_page *page = gb_page_at(first);
    memset(page, 0, sizeof *page);
    entries_write(first, slices, kind);
    page->heap = heap->number;
    page->slices = slices;
    if (kind == GB_SMALL)
        gb_page_own(page, heap);
    else if (kind == GB_LARGE) {
        page->state = GB_SINGLE;
        gb_list_push_last(&heap->large, page);
    }
    glebe_live.stats.pages_taken++;
    gb_account_kept();
    return page;
}

void gb_run_give(gb_page *page)
{
    glebe_heap *heap = gb_heap_at(page->heap);
    gb_unaccount(heap, gb_page_bytes(page), gb_statistic((enum gb_kind)page->kind));
    if (page->kind == GB_LARGE)
        gb_list_remove(&heap->large, page);
    glebe_live.stats.pages_returned++;
    slices_give(gb_page_number(page), page->slices);
}

/* At the end of memory a block grows by letting that grow. */
bool gb_run_resize(gb_page *page, uint32_t slices)
{
    uint32_t first = gb_page_number(page), before = page->slices, after = first + before;
    glebe_heap *heap = gb_heap_at(page->heap);
    uint64_t *statistic = gb_statistic((enum gb_kind)page->kind);
    if (slices < before) {
        gb_unaccount(heap, (size_t)(before - slices) << GB_SLICE_LOG2, statistic);
        slices_give(first + slices, before - slices);
    } else if (slices > before) {
        uint32_t more = slices - before;
        gb_page *run = free_from(after);
        if (!gb_account(heap, (size_t)more << GB_SLICE_LOG2, statistic))
            return false;
        if ((run ? after + run->slices : after) == gb_peek(gb_the.slices) && (!run || run->slices < more) && grow(more))
            run = free_from(after);
        if (!run || run->slices < more) {
            gb_unaccount(heap, (size_t)more << GB_SLICE_LOG2, statistic);
            return false;
        }
        slices_take(run, after, more);
        for (uint32_t i = before; i < slices; i++) {
            gb_page_at(first + i)->back_bytes = i * (uint32_t)sizeof(gb_page);
            gb_page_at(first + i)->kind = (uint8_t)gb_page_at(first)->kind;
        }
        gb_account_kept();
    }
    gb_page_at(first)->slices = slices;
    return true;
}
