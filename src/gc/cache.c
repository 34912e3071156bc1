/* Caches: a thread allocates small objects without a lock (GB_RUNTIMES).
 *
 *     page      | a | b |   |   |   | c |   | d |         the collector's, guarded by a lock of its user
 *                        ^at         ^end  ^at ^end       under that lock a row takes up to 14 gaps, 4 KiB in all
 *     row        now ────┘                  └── next      the thread adds `step` to `at`, and takes no lock
 *
 * All cells of a gap count as allocated from the moment when a row takes it. The user of the collector stops all
 * threads before marking. A thread may be stopped anywhere, also between reading `at` and writing it:
 *
 * 1. A collection leaves rows alone. When a thread goes on, its row is as it was.
 * 2. The cells from `at` to `end` count as marked, so no word leads the marker into them, and the sweep keeps them. An
 *    object that the thread is about to hand out is one of them: nothing refers to it, and it is zero or plain.
 * 3. So an object is in use from the write to `at` on. From then on its address is in a register or on a stack.
 * 4. A gap that has to be cleared is cleared when the thread gets to it, before `now` says so. Until then its words
 *    are not read.
 *
 * The cells of gaps count neither as live nor as garbage: cached_bytes is subtracted. A thread that allocates while
 * marking runs must not use a cache: such objects count as reached, and are scanned at the end. */
#include "gc.h"

enum { CACHE_LEAST_BYTES = 512, CACHE_MOST_BYTES = 4096 };

gb_cache *gb_cache_new(glebe_gc *gc)
{
    gb_cache *cache = GB_RUNTIMES ? gb_calloc(gc->heap, 1, sizeof *cache) : NULL;
    if (cache) {
        cache->next = gc->caches;
        gc->caches = cache;
    }
    return cache;
}

/* Behind the last row. */
GB_INLINE const gb_cache_row *cache_end(const gb_cache *cache) { return (const gb_cache_row *)(cache + 1); }

/* Calls `each` for each gap of the cache with cells left. */
GB_INLINE void cache_each(glebe_gc *gc, gb_cache *cache, void (*each)(glebe_gc *, const gb_gap *, uint32_t step))
{
    for (gb_cache_row *row = &cache->rows[0][0]; row < cache_end(cache); row++)
        for (uint32_t i = 1; i <= row->last; i++)
            if (row->gaps[i].at != row->gaps[i].end)
                each(gc, &row->gaps[i], row->step);
}

static void cache_return(glebe_gc *gc, const gb_gap *gap, uint32_t step)
{
    (void)step;
    gb_gap_return(gc, gap);
}

void gb_cache_end(glebe_gc *gc, gb_cache *cache)
{
    if (!GB_RUNTIMES || !cache)
        return;
    cache_each(gc, cache, cache_return);
    for (gb_cache **at = &gc->caches; *at; at = &(*at)->next)
        if (*at == cache) {
            *at = cache->next;
            break;
        }
    gb_free("glebe_gc", gc->heap, cache);
}

void *gb_cache_next(gb_cache_row *row)
{
    uint32_t i = row->now / (uint32_t)sizeof(gb_gap) + 1;
    if (i > row->last)
        return NULL;
    const gb_gap *gap = &row->gaps[i];
    if (row->dirty >> i & 1)
        gb_gap_zero(gap->at, gap->end);
    row->now = i * (uint32_t)sizeof *gap;
    return gb_cache_take(row);
}

/* The first fills are small, so that a thread which allocates little holds little. */
bool gb_cache_fill(glebe_gc *gc, gb_cache_row *row, size_t bytes, bool plain)
{
    size_t most = CACHE_LEAST_BYTES << (row->fills < 3 ? row->fills : 3);
    _Static_assert(CACHE_LEAST_BYTES << 3 == CACHE_MOST_BYTES, "three fills double the bytes");
    row->now = 0;
    row->last = 0;
    row->dirty = 0;
    row->fills += row->fills < 3;
    return gb_gaps_next(gc, bytes, plain, most, row);
}

void gb_caches_shield(glebe_gc *gc)
{
    gc->taken_bytes += gc->cached_bytes; /* what was in caches before is handed out, or in caches still */
    gc->cached_bytes = gc->cached_objects = 0;
    for (gb_cache *cache = gc->caches; GB_RUNTIMES && cache; cache = cache->next)
        cache_each(gc, cache, gb_gap_shield);
    gc->taken_bytes -= gc->cached_bytes;
}

static void cache_hide(glebe_gc *gc, const gb_gap *gap, uint32_t step)
{
    for (uintptr_t at = gap->at, end = gap->end; at < end; at += step)
        gb_bit_set(gb_bits_of(gc)->waiting, gb_cell(at));
}

static void cache_show(glebe_gc *gc, const gb_gap *gap, uint32_t step)
{
    const gb_page *page = gb_page_head(gb_page_entry((const void *)(gap->end - step)));
    memset(gb_page_bits(gb_bits_of(gc)->waiting, page), 0, gb_page_words(page) * 8);
}

void gb_caches_hide(glebe_gc *gc, bool hide)
{
    for (gb_cache *cache = gc->caches; GB_RUNTIMES && cache; cache = cache->next)
        for (gb_cache_row *row = &cache->rows[0][0]; row < cache_end(cache); row++)
            for (uint32_t i = 1; i <= row->last; i++)
                (hide ? cache_hide : cache_show)(gc, &row->gaps[i], row->step);
}

uint64_t gb_caches_left(const glebe_gc *gc, size_t *bytes)
{
    uint64_t left = 0;
    for (const gb_cache *cache = gc->caches; GB_RUNTIMES && cache; cache = cache->next)
        for (const gb_cache_row *row = &cache->rows[0][0]; row < cache_end(cache); row++)
            for (uint32_t i = 1; i <= row->last; i++) {
                left += (row->gaps[i].end - row->gaps[i].at) / row->step;
                *bytes += row->gaps[i].end - row->gaps[i].at;
            }
    return left;
}
