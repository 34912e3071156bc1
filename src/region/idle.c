/* Purging idle extents, the longest waiting first.
 *
 * An extent is purged when it has waited for purge_ms. Memory beyond the bounds on retained memory (bounds.c) is purged
 * at once. Purging a part of a huge page splits it, and its span asks for small pages from then on (span.c). So whole
 * huge pages are purged first, and parts of huge pages wait four times as long.
 *
 * Everything here is under gb_the.lock. */
#include "region.h"

/* Purges table entries around [number, number + granules), which became part of the free extent `whole`: entries
 * inside a free extent are unused, and zero. */
static void extent_purge_table(const gb_extent *whole, uint32_t number, uint32_t granules)
{
    uint32_t few = (uint32_t)(gb_the.page_bytes / sizeof *whole),
             from = number > extent_number(whole) + few ? number - few : extent_number(whole) + 1;
    uint32_t last = extent_end(whole) - 1, end = number + granules + few < last ? number + granules + few : last;
    uintptr_t start = gb_round_up((uintptr_t)extent_at(from), gb_the.page_bytes),
              stop = gb_round_down((uintptr_t)extent_at(end), gb_the.page_bytes);
    if (stop > start)
        gb_port_purge(start, stop - start, false);
}

/* Purges these granules of an idle extent; unmaps them if the extent was moved, or address space is limited. A moved
 * extent must be purged whole. Returns the bytes. */
static size_t extent_purge_part(gb_extent *extent, uint32_t number, uint32_t granules, bool lazily)
{
    size_t bytes = granules_bytes(granules);
    uintptr_t at = granule_start(number);
    enum gb_extent_state state = GB_EXTENT_AWAY;
    bool leaves = gb_the.huge.sets[GB_EXTENT_AWAY - GB_EXTENT_IDLE].count < GB_AWAY_MOST, moved;
    if (!extent->moved && !(gb_the.limited && leaves)) {
        enum gb_purge done = gb_port_purge(at, bytes, lazily);
        if (done == GB_PURGE_REFUSED)
            return 0;
        state = done == GB_PURGE_LAZY ? GB_EXTENT_LAZY : GB_EXTENT_CLEAN;
    } else if (!part_decommit(at, bytes))
        return 0;
    extents_carve(extent, number, granules, &moved);
    const gb_extent *whole = extent_add(number, granules, state, false);
    if (state != GB_EXTENT_AWAY)
        gb_spans_purged(at, bytes, gb_extent_start(whole), granule_start(extent_end(whole)));
    if (state != GB_EXTENT_LAZY)
        extent_purge_table(whole, number, granules);
    glebe_live.stats.purges++;
    glebe_live.stats.purged_bytes += bytes;
    return bytes;
}

/* Purges the end of an idle extent: `most` bytes, rounded up to granules. */
static size_t extent_purge(gb_extent *extent, size_t most, bool lazily)
{
    uint32_t all = extent->granules, granules = most < granules_bytes(all) && !extent->moved ? granules_of(most) : all;
    return extent_purge_part(extent, extent_end(extent) - granules, granules, lazily);
}

/* extent_purge for whole huge pages only. Returns 0 if the extent has none at its end. */
static size_t extent_purge_spans(gb_extent *extent, size_t most, bool lazily)
{
    uintptr_t from = gb_round_up(gb_extent_start(extent), GB_CHUNK_BYTES),
              end = gb_round_down(granule_start(extent_end(extent)), GB_CHUNK_BYTES);
    if (extent->moved || end <= from || !gb_span_huge(end - GB_CHUNK_BYTES))
        return 0;
    if (most < end - from)
        from = end - gb_round_up(most, GB_CHUNK_BYTES);
    return extent_purge_part(
        extent, (uint32_t)((from - gb_the.extents_base) >> GB_GRANULE_LOG2), granules_of(end - from), lazily);
}

/* Restarts the extent's wait. */
static void idle_again(gb_extent *extent)
{
    idle_remove(extent);
    idle_insert(extent, NULL);
    extent->idle_ms = gb_port_now_ms();
}

/* Purges an extent that is due. If it ends or begins in a huge page, only whole huge pages at first: the rest waits
 * four times as long. */
static size_t extent_purge_due(gb_extent *extent, size_t most, bool lazily)
{
    enum { DEFERS = 3 };
    bool parts = gb_span_huge(gb_extent_start(extent)) || gb_span_huge(granule_start(extent_end(extent) - 1));
    if (!parts || extent->deferred >= DEFERS)
        return extent_purge(extent, most, lazily);
    size_t given = extent_purge_spans(extent, most, lazily);
    extent->deferred += given == 0;
    return given;
}

/* Purges extents that were purged lazily: they may still be resident. Those that the OS refuses stay as they are. */
static size_t lazy_purge(size_t most)
{
    gb_extent_set *set = &gb_the.huge.sets[GB_EXTENT_LAZY - GB_EXTENT_IDLE];
    size_t given = 0;
    for (uint32_t bin = bin_filled(set, 0); bin < GB_EXTENT_BINS && given < most; bin = bin_filled(set, bin + 1))
        for (uint32_t number = set->bins[bin].first, next; number && given < most; number = next) {
            gb_extent *extent = extent_at(number);
            next = extent->links.next;
            given += extent_purge(extent, most - given, false);
        }
    return given;
}

size_t gb_extents_purge(uint32_t since, bool all, bool lazily, size_t *budget_bytes)
{
    size_t given = 0, most = *budget_bytes;
    uint32_t last = gb_the.huge.idle.ends.last;
    if (all || gb_the.huge.idle.ends.first)
        gb_limit_look();
    for (uint32_t number = gb_the.huge.idle.ends.first; number && given < most;) {
        gb_extent *extent = extent_at(number);
        if (!all && gb_ms_later(extent->idle_ms, since))
            break;
        uint32_t next = number == last ? 0 : extent->waits.next;
        size_t purged = all ? extent_purge(extent, most - given, lazily)
                            : extent_purge_due(extent, most - given, lazily);
        if (purged == 0) /* deferred, or refused because memory is locked */
            idle_again(extent);
        given += purged;
        number = next;
    }
    if (all && !lazily && given < most)
        given += lazy_purge(most - given);
    *budget_bytes = given < most ? most - given : 0;
    if (gb_the.limited)
        extents_lower();
    return given;
}

/* Purges whole huge pages first, if the oldest extents have some. */
size_t gb_extents_shrink(size_t bytes)
{
    enum { LOOKS = 32 };
    size_t given = 0;
    gb_extent *extent = gb_the.spans.huge ? gb_extent_if(gb_the.huge.idle.ends.first) : NULL, *next;
    for (uint32_t looks = LOOKS; extent && looks > 0 && given < bytes; looks--, extent = next) {
        next = gb_extent_if(extent->waits.next);
        given += extent_purge_spans(extent, bytes - given, false);
    }
    for (extent = gb_extent_if(gb_the.huge.idle.ends.first); extent && given < bytes; extent = next) {
        next = gb_extent_if(extent->waits.next);
        given += extent_purge(extent, bytes - given, false);
    }
    return given;
}

uint32_t gb_extents_wait(uint32_t now)
{
    const gb_extent *first = gb_extent_if(gb_the.huge.idle.ends.first);
    if (!first)
        return UINT32_MAX;
    uint32_t waited = gb_ms_since(now, first->idle_ms);
    return waited >= gb_the.options.purge_ms ? 0 : gb_the.options.purge_ms - waited;
}
