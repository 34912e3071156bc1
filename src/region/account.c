/* Accounts: memory in use by the process and by each heap, and the limits on both. The region's lock guards them. */
#include "region.h"

uint64_t *gb_statistic(enum gb_kind kind)
{
    glebe_stats *s = &glebe_live.stats;
    if (!GB_TALLIES)
        return NULL;
    return kind == GB_SMALL || kind == GB_COLLECTED ? &s->small_bytes
        : kind == GB_MEDIUM                         ? &s->medium_bytes
                                                    : &s->large_bytes;
}

bool gb_account_allows(glebe_heap *heap, size_t bytes)
{
    size_t held = gb_heap_held(heap);
    if (GB_PURGES)
        heap->refused_bytes = 0;
    if (heap->limit_bytes && (held > heap->limit_bytes || bytes > heap->limit_bytes - held))
        return false;
    if (gb_the.options.limit && gb_held() + bytes > gb_the.options.limit) {
        if (GB_PURGES)
            heap->refused_bytes = bytes;
        return false;
    }
    return true;
}

bool gb_account(glebe_heap *heap, size_t bytes, uint64_t *statistic)
{
    if (!gb_account_allows(heap, bytes))
        return false;
    gb_store_relaxed(&heap->bytes, gb_load_relaxed(&heap->bytes) + bytes);
    if (GB_TALLIES)
        *statistic += bytes;
    if (GB_SAMPLES && gb_load_relaxed(&heap->kind) == GB_HEAP_OWNED)
        gb_the.owned_bytes += bytes;
    glebe_live.stats.used_bytes += bytes;
    return true;
}

void gb_account_kept(void)
{
    glebe_stats *s = &glebe_live.stats;
    if (GB_TALLIES && gb_held() > s->peak_used_bytes)
        s->peak_used_bytes = gb_held();
    if (GB_SNAPSHOTS && GB_UNLIKELY(gb_held() >= ~gb_load_relaxed(&gb_the.watch.from_not))) {
        gb_store_relaxed(&gb_the.watch.due, true);
        gb_store_relaxed(&gb_the.kept.over, true); /* a request looks there when it is served */
    }
}

void gb_unaccount(glebe_heap *heap, size_t bytes, uint64_t *statistic)
{
    gb_store_relaxed(&heap->bytes, gb_load_relaxed(&heap->bytes) - bytes);
    if (GB_TALLIES)
        *statistic -= bytes;
    if (GB_SAMPLES && gb_load_relaxed(&heap->kind) == GB_HEAP_OWNED)
        gb_the.owned_bytes -= bytes;
    glebe_live.stats.used_bytes -= bytes;
}
