/* glebe_check of the region: chunks, their slices, and extents. The caller holds the region's lock. */
#include "check.h"

/* ---- chunks ---- */

static glebe_heap *check_run_heap(gb_check *check, const gb_page *page)
{
    uint32_t number = gb_load_relaxed(&page->heap);
    glebe_heap *heap = gb_page_heap(page);
    CHECK(number > 0 && number <= gb_the.records.made && heap->kind != GB_HEAP_UNUSED, 9, page,
        "a run belongs to a heap that is not in use");
    return heap;
}

/* Checks that the slices of a large block have entries of free slices. Returns their number; 1 if the record's number
 * is wrong. */
static uint32_t check_large(gb_check *check, const gb_chunk *chunk, const gb_page *large)
{
    uint32_t slice = gb_large_slice(large), start = slice % GB_CHUNK_SLICES;
    bool fits = large->slices >= GB_LARGE_LEAST && start + large->slices <= GB_CHUNK_SLICES;
    CHECK(fits, 1, large, "a large block is longer than its chunk, or too short");
    check_run_heap(check, large);
    for (uint32_t k = 0; fits && k < large->slices; k++) {
        const gb_page *entry = gb_entry_at(slice + k);
        CHECK(!gb_set_has(chunk->free, start + k), 1, gb_slice_start(slice + k), "a slice in use is marked free");
        CHECK(entry->kind == GB_FREE && entry->back_bytes == 0 && gb_load_relaxed(&entry->owner) == 0
                && gb_slice_head(slice + k) == entry,
            1, entry, "the entry of a large block's slice is not a free slice's");
    }
    return fits ? large->slices : 1;
}

/* Checks a chunk and returns the number of its free dirty slices. */
static uint32_t check_chunk(gb_check *check, uint32_t number)
{
    gb_chunk *chunk = gb_chunk_at(number);
    uint32_t free = 0, dirty = 0, run = 0, longest = 0, larges = 0, records = 0, first = number * GB_CHUNK_SLICES;
    for (uint32_t i = 0; i < GB_CHUNK_SLICES;) {
        gb_page *page = gb_entry_at(first + i);
        bool is_free = gb_set_has(chunk->free, i);
        CHECK(page->back_bytes == 0 || page->kind == GB_RESERVED, 1, page, "a slice inside a run follows no head");
        if (page->kind == GB_FREE || page->kind == GB_RESERVED) {
            const gb_page *large = page->kind == GB_FREE && !is_free ? gb_large_in(first + i) : NULL;
            CHECK(gb_load_relaxed(&page->owner) == 0, 1, page, "a free slice has an owner");
            CHECK(!is_free || gb_slice_head(first + i) == page, 1, page, "a free slice has a head");
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
                gb_check_zero(check, (const void *)gb_slice_start(first + i), GB_SLICE_BYTES,
                    "memory that is marked zero is not zero");
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
            CHECK(page[k].back_bytes == k * sizeof(gb_page) && gb_slice_head(first + i + k) == page, 1, page + k,
                "the distance to the head is wrong");
            CHECK(page[k].kind == page->kind, 1, page + k, "slices of one run differ in kind");
            CHECK(gb_load_relaxed(&page[k].owner)
                    == (page->kind == GB_SMALL && page->mark == GB_PARKED ? 0
                                                                           : gb_owner(heap, (enum gb_kind)page->kind)),
                1, page + k, "the owner is wrong");
        }
        i += page->slices;
    }
    for (uint32_t i = 0; i < GB_CHUNK_SLICES; i += GB_LARGE_LEAST)
        records += gb_large_record(first + i)->kind != GB_FREE;
    CHECK(records == larges, 1, chunk, "a record describes a large block that does not exist");
    CHECK(free == chunk->free_slices, 1, chunk, "the count of free slices is wrong");
    CHECK(longest == chunk->rows[GB_ROW_FREE].slices, 1, chunk, "the longest free run is wrong");
    CHECK(gb_set_longest(gb_set_both(chunk->free, chunk->dirty)) == chunk->rows[GB_ROW_DIRTY].slices, 1, chunk,
        "the longest run that is free and dirty is wrong");
    return dirty;
}

/* Checks that chunks without address space hold nothing, and are on their list once. */
static void check_away(gb_check *check)
{
    uint32_t count = 0;
    const gb_queue *away = &gb_the.arena.away;
    const gb_chunk *last = NULL;
    for (const gb_chunk *chunk = gb_chunk_if(away->ends.first); chunk && count <= away->count;
        chunk = gb_chunk_if(chunk->rows[GB_ROW_FREE].links.next)) {
        CHECK(chunk->free_slices == 0 && chunk->rows[GB_ROW_FREE].slices == 0, 1, chunk,
            "a chunk that is away has free slices");
        for (uint32_t i = 0; i < GB_CHUNK_SLICES; i++)
            CHECK(gb_entry_at(gb_chunk_number(chunk) * GB_CHUNK_SLICES + i)->kind == GB_RESERVED, 1, chunk,
                "a chunk that is away has a page");
        last = chunk;
        count++;
    }
    CHECK(gb_chunk_if(away->ends.last) == last, 1, &gb_the, "the list of chunks away does not end with its last chunk");
    CHECK(count == away->count, 1, &gb_the, "the count of chunks away is wrong");
}

/* ---- extents ---- */

size_t gb_check_big(gb_check *check, const glebe_heap *heap)
{
    size_t bytes = 0, warm = 0;
    uint32_t count = 0;
    for (const gb_extent *extent = gb_extent_if(heap->huge.first); extent; extent = gb_extent_if(extent->links.next)) {
        CHECK(extent->state == GB_EXTENT_USED && extent->heap.n == heap->number.n, 4, gb_extent_start(extent),
            "a huge block is on another heap's list");
        bytes += extent->bytes;
        count += extent->warm;
    }
    for (const gb_page *large = gb_list_first(&heap->large); large; large = gb_list_next(large))
        count += large->warm;
    for (uint32_t i = 0; i < heap->warm_count && i < GB_WARM_BLOCKS; i++)
        warm += *heap->warm_big[i].flag == 1 ? heap->warm_big[i].bytes : 0;
    CHECK(count == heap->warm_count && warm == heap->warm_bytes, 4, heap,
        "the list of warm blocks disagrees with their marks");
    return bytes;
}

/* Checks the idle extents, longest waiting first. */
static void check_idle(gb_check *check, uint32_t count)
{
    const gb_queue *idle = &gb_the.huge.idle;
    uint64_t bytes = 0;
    uint32_t before = 0, left = count;
    for (const gb_extent *extent = gb_extent_if(idle->ends.first); extent && left > 0;
        extent = gb_extent_if(extent->waits.next), left--) {
        CHECK(extent->state == GB_EXTENT_IDLE && extent->waits.prev == before, 4, gb_extent_start(extent),
            "an extent on the list of idle extents is not idle");
        CHECK(!before || !gb_ms_later(gb_the.extents[before].idle_ms, extent->idle_ms), 4, gb_extent_start(extent),
            "an idle extent is out of turn");
        bytes += (uint64_t)extent->granules << GB_GRANULE_LOG2;
        before = (uint32_t)(extent - gb_the.extents);
    }
    CHECK(left == 0 && idle->count == count && before == idle->ends.last
            && bytes == glebe_live.stats.huge_retained_bytes,
        7, &gb_the, "the idle memory of huge blocks does not add up");
}

/* Checks and counts the free extents of a state. */
static uint32_t check_extents_listed(gb_check *check, uint32_t set)
{
    uint32_t listed = 0;
    for (uint32_t bin = 0; bin < GB_EXTENT_BINS; bin++) {
        uint32_t before = 0, number = gb_the.huge.sets[set].bins[bin].first;
        CHECK((gb_the.huge.sets[set].filled[bin / 64] >> bin % 64 & 1) == (number != 0), 5, &gb_the,
            "extents are not found by their length");
        for (const gb_extent *extent; number && listed < gb_the.huge.sets[set].count;
            number = extent->links.next, listed++) {
            extent = gb_the.extents + number;
            CHECK(extent->state == GB_EXTENT_IDLE + set && extent->links.prev == before, 5, gb_extent_start(extent),
                "an extent is on the list of another state");
            before = number;
        }
    }
    return listed;
}

/* Checks that spans with huge pages are counted, and committed. */
static void check_spans(gb_check *check, uint32_t top)
{
    uint32_t counts[GB_SPAN_SMALL + 1] = {0}, granules = (uint32_t)(GB_CHUNK_BYTES >> GB_GRANULE_LOG2);
    for (uint32_t span = 0; top && span <= (top - 1) / granules && gb_the.spans.states[span] <= GB_SPAN_SMALL; span++) {
        counts[gb_the.spans.states[span]]++;
        if (gb_the.spans.states[span] == GB_SPAN_NONE)
            continue; /* in long free extents, whose start is far */
        const gb_extent *extent = gb_extent_of((void *)(gb_the.extents_base + span * GB_CHUNK_BYTES));
        CHECK(extent->state < GB_EXTENT_AWAY, 7, gb_extent_start(extent),
            "a span that asked for a huge page is not committed");
    }
    CHECK(counts[GB_SPAN_HUGE] == gb_the.spans.huge && counts[GB_SPAN_SMALL] == gb_the.spans.small, 7, &gb_the,
        "the counts of huge pages are wrong");
}

/* Checks that extents adjoin, and that no two free neighbours could be one. */
static void check_extents(gb_check *check)
{
    uint32_t counts[GB_EXTENT_SETS] = {0}, moved = 0, used = 0, top = gb_load_relaxed(&gb_the.huge.top);
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
            5, gb_extent_start(extent), "two adjacent free extents were not merged");
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
        CHECK(counts[set] == gb_the.huge.sets[set].count && check_extents_listed(check, set) == counts[set], 5,
            &gb_the, "the counts of extents are wrong");
    CHECK(
        moved == gb_the.huge.moved && used == gb_the.huge.blocks, 7, &gb_the, "the counts of huge blocks are wrong");
    check_idle(check, counts[0]);
}

void gb_check_region(gb_check *check)
{
    const glebe_stats *s = &glebe_live.stats;
    size_t dirty = 0;
    check_extents(check);
    for (uint32_t number = 0; number < gb_the.arena.chunks; number++)
        dirty += check_chunk(check, number);
    check_away(check);
    CHECK(dirty == gb_the.arena.dirty_slices, 7, &gb_the, "the count of dirty free slices is wrong");
    CHECK(gb_held() == s->small_bytes + s->medium_bytes + s->large_bytes + s->huge_bytes, 7, &glebe_live,
        "the statistics do not add up");
}
