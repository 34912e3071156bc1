/* The region: one piece of address space for the chunks, the extents and their tables (types.h has the picture).
 *
 * Where address space costs nothing it is reserved as a whole. Elsewhere, as on Linux, only a place is chosen, and a
 * commit takes address space too. */
#include "region.h"

/* Moves the place by up to `most` bytes, so that addresses cannot be guessed. Takes the first page of the place, which
 * no table uses, and returns false if another copy of this library has it. */
static bool region_claim(uintptr_t *at, size_t most)
{
    if (gb_port_commit(*at, gb_the.page_bytes, false) != GB_COMMITTED)
        return false;
    size_t step = 2 * GB_CHUNK_BYTES;
    *at += gb_port_random() % (most / step + 1) * step;
    return true;
}

/* Lays the region out for `chunks_bytes` of chunks and `extents_bytes` of extents, at a place that is reserved or
 * proposed. Returns false if the place does not serve. */
static bool region_place(size_t chunks_bytes, size_t extents_bytes, bool reserve, unsigned attempt)
{
    size_t page = gb_the.page_bytes, gap = gb_round_up((size_t)64 << 10, page);
    size_t heaps_max = chunks_bytes >> 19, extents_max = extents_bytes >> GB_GRANULE_LOG2;
    heaps_max = heaps_max > (1 << 20) ? 1 << 20 : heaps_max;
    size_t table = gap, large = table + (chunks_bytes >> GB_SLICE_LOG2) * sizeof(gb_page) + gap;
    size_t heads = large + (chunks_bytes >> GB_SLICE_LOG2) / GB_LARGE_LEAST * sizeof(gb_page) + gap;
    size_t chunk_table = heads + (chunks_bytes >> GB_SLICE_LOG2) * sizeof(gb_page *) + gap;
    size_t heaps = gb_round_up(chunk_table + (chunks_bytes >> GB_CHUNK_LOG2) * sizeof(gb_chunk), gap) + gap;
    size_t heap_bits = heaps + gb_round_up(heaps_max * GB_HEAP_STRIDE, gap) + gap;
    size_t extents = heap_bits + gb_round_up((heaps_max / 64 + 1) * sizeof(gb_heap_bits), gap) + gap;
    size_t spans = extents + gb_round_up(extents_max * sizeof(gb_extent), gap) + gap;
    size_t shadow = spans + gb_round_up((extents_bytes >> GB_CHUNK_LOG2) + 1, gap) + gap;
    size_t allocated = GB_SHADOW ? shadow + (chunks_bytes >> GB_SHADOW_LOG2) + gap : shadow;
    size_t bits = gb_bits_bytes((uint32_t)(chunks_bytes >> GB_CHUNK_LOG2)) + gap;
    size_t zero_bits = gb_round_up(allocated + GB_BITS_TABLES * GB_BITS * bits, gap), zeros_bytes = chunks_bytes >> 10;
    size_t zeros = zero_bits + gb_round_up(zeros_bytes / GB_ZERO_BYTES / 8, gap) + gap;
    size_t chunks = gb_round_up(zeros + zeros_bytes + gap, 2 * GB_CHUNK_BYTES);
    size_t extents_start = chunks + chunks_bytes;

    size_t bytes = extents_start + extents_bytes, room = 0;
    uintptr_t at = reserve ? gb_port_reserve(bytes) : gb_port_propose(bytes, attempt, &room);
    if (at == 0)
        return false;
    if (room > bytes && !region_claim(&at, room - bytes))
        return false;
    gb_the.reserved = reserve;
    gb_the.table = (gb_page *)(at + table);
    gb_the.large = (gb_page *)(at + large);
    gb_the.heads = (gb_page **)(at + heads);
    gb_the.chunk_table = (gb_chunk *)(at + chunk_table);
    gb_the.heaps = (glebe_heap *)(at + heaps);
    gb_the.heap_bits = (gb_heap_bits *)(at + heap_bits);
    gb_the.extents = (gb_extent *)(at + extents);
    gb_the.spans.states = (uint8_t *)(at + spans);
    gb_the.shadow = (uint64_t *)(at + shadow);
    for (size_t k = 0; k < GB_BITS; k++) {
        uintptr_t tables = at + allocated + GB_BITS_TABLES * k * bits;
        gb_the.bits[k].allocated = (uint64_t *)tables;
        gb_the.bits[k].unmarked = (uint64_t *)(tables + bits);
        gb_the.bits[k].waiting = (uint64_t *)(tables + 2 * bits);
    }
    gb_the.zeros.bits = (_Atomic uint64_t *)(at + zero_bits);
    gb_the.zeros.base = at + zeros;
    gb_the.zeros.words_max = (uint32_t)(zeros_bytes / GB_ZERO_BYTES / 64);
    gb_the.base = at + chunks;
    gb_the.extents_base = at + extents_start;
    gb_the.huge.granules_max = (uint32_t)extents_max;
    gb_the.arena.chunks_max = (uint32_t)(chunks_bytes >> GB_CHUNK_LOG2);
    gb_the.records.max = (uint32_t)heaps_max;
    /* Only a commit shows that a proposed place serves; this table's first piece is needed at once anyway. */
    return reserve || gb_meta_commit(gb_the.table, &gb_the.committed.table, 1);
}

/* Tries to reserve 4 TiB of chunks, 512 GiB, ... 2 GiB, and as much for extents. */
static bool region_reserve(void)
{
    for (unsigned log2 = 42; log2 >= 31; log2 -= log2 > 36 ? 3 : 1)
        if (region_place((size_t)1 << log2, (size_t)1 << log2, true, 0))
            return true;
    return false;
}

/* Tries the places that the host proposes: another copy of this library may occupy the first. */
static bool region_propose(size_t chunks_bytes, size_t extents_bytes)
{
    enum { ATTEMPTS = 8 };
    for (unsigned attempt = 0; attempt < ATTEMPTS; attempt++)
        if (region_place(chunks_bytes, extents_bytes, false, attempt))
            return true;
    return false;
}

/* Draws the key of links, which is odd so that it has an inverse, and the end of lists. Each step of Newton's method
 * doubles the number of bits in which `unkey` is the inverse; the key itself is it in three. */
static void region_key(void)
{
    gb_the.key = (uintptr_t)gb_port_random() | 1;
    gb_the.unkey = gb_the.key;
    for (unsigned bits = 3; bits < 8 * sizeof gb_the.key; bits *= 2)
        gb_the.unkey *= 2 - gb_the.key * gb_the.unkey;
    gb_the.end = (uintptr_t)gb_port_random() | (uintptr_t)GB_END_BITS;
}

/* Eight bytes from 0x80 to 0xfe. Most overflows write zeros, text, or what memset(-1) writes, which differ from all. */
static uint64_t region_pattern(void)
{
    uint64_t pattern = 0;
    for (uint64_t random = gb_port_random(), i = 0; i < sizeof pattern; i++, random >>= 8)
        pattern = pattern << 8 | (0x80 + random % 256 % 127);
    return pattern;
}

bool gb_region_start(void)
{
    if (gb_the.ready)
        return true;
    gb_the.page_bytes = gb_port_page_bytes();
    if (GB_SAFE)
        gb_the.process = gb_port_process();
    if (GB_KEYED)
        region_key();
    if (GB_SECURE)
        gb_the.tail_pattern = region_pattern();
    if (gb_the.options.purge_ms == 0)
        gb_the.options.purge_ms = GB_PURGE_MS;
    size_t address_bytes = gb_port_address_bytes();
    bool wide = sizeof(size_t) == 8, placed = wide && address_bytes == SIZE_MAX && region_reserve();
    if (!placed && wide) { /* choosing a place costs nothing, so blocks have room to grow even under small limits */
        unsigned log2 = address_bytes == SIZE_MAX ? GB_PLACE_LOG2 : gb_log2_ceil(address_bytes) + 2;
        log2 = log2 < GB_PLACE_LOG2 ? GB_PLACE_LOG2 : log2 > GB_PLACE_MOST_LOG2 ? GB_PLACE_MOST_LOG2 : log2;
        placed = region_propose((size_t)1 << log2, (size_t)1 << log2) || region_reserve();
    }
    if (!placed && !wide) /* for processes with 4 GiB of address space, then for those with 3 */
        placed = region_propose((size_t)1 << 30, (size_t)3 << 28) || region_propose((size_t)5 << 27, (size_t)3 << 27);
    gb_the.ready = placed;
    gb_limit_look();
    return placed;
}
