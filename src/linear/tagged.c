/* Blocks of any size in linear memory, for sizes above the classes of pages. A tag of 4 bytes in front of each block
 * holds its length, and whether it and the block before it are in use. A free block also has its length behind it.
 * So a freed block finds both neighbours, and merges with free ones.
 *
 *          c      +4     +8 (a multiple of 16)                      next
 *     | before |  tag  | program's bytes ............................... tag | ...         in use
 *     | before |  tag  | next, link | ...                        | bytes | tag | ...       free: on the list of its bin
 *
 * Short lengths have a bin each; above them there are sixteen bins per doubling. Each bin has a bit. malloc looks at
 * the first few blocks in the bin of its size, then takes the first block of the next bin that is not empty. So blocks
 * are within a sixteenth of the best fit. The remainder becomes a free block.
 *
 * The block freed last stays warm, for a malloc of the same length: programs often free and allocate buffers. Only
 * blocks of GB_TAGGED_EXACT bytes and more become warm.
 *
 * A block of a heap other than malloc's begins with a gb_owned, so that the heap finds all its blocks. The tag in
 * front of the program's bytes then says so, and the block's own tag is in front of the gb_owned. */
#include "../serve/serve.h"
#include "tagged.h"

enum { LOOKS = 3 };

static GB_NOINLINE gb_tagged *tagged_find_larger(uint32_t bin)
{
    uint32_t word = bin / 64;
    uint64_t bits = gb_the.linear.filled[word] >> bin % 64 << bin % 64;
    for (;;) {
        while (bits == 0) {
            if (++word == GB_TAGGED_BINS / 64)
                return NULL;
            bits = gb_the.linear.filled[word];
        }
        bin = word * 64 + gb_ctz64(bits);
        gb_tagged *c = gb_the.linear.bins[bin];
        if (GB_LIKELY(c != NULL))
            return c;
        bits &= bits - 1;
        gb_the.linear.filled[word] &= ~((uint64_t)1 << bin % 64);
    }
}

/* Takes a free block of `bytes` into use; NULL if none is as large. A block behind the previous value of `fresh` is
 * zero. */
static GB_NOINLINE gb_tagged *tagged_take(uint32_t bytes)
{
    uint32_t bin = gb_tagged_bin(bytes);
    gb_tagged *c = gb_the.linear.bins[bin];
    if (GB_UNLIKELY(bytes >= GB_TAGGED_EXACT))
        for (int looks = LOOKS; c && c->tag < bytes; looks--)
            c = looks ? c->next : NULL;
    if (!c && (c = tagged_find_larger(bin + 1)) == NULL)
        return NULL;
    gb_tagged_split(c, bytes);
    return c;
}

/* Frees c and merges it with its neighbours. `tag` is c->tag, `next_tag` that of the next block: callers have read
 * both. */
GB_MALLOC_INLINE void tagged_merge(gb_tagged *c, uint32_t tag, uint32_t next_tag)
{
    uint32_t bytes = tag & ~(uint32_t)15;
    gb_tagged *next = gb_tagged_next(c, bytes);
    gb_the.linear.used -= bytes;
    if (!(tag & GB_TAG_BEFORE_USED)) {
        uint32_t before = c->before;
        /* clears the tag, so that another free of this address is found, and memory that may be fresh stays zero */
        c->before = c->tag = 0;
        c = (gb_tagged *)((uintptr_t)c - before);
        gb_tagged_unlink(c);
        bytes += before;
    }
    if (next_tag & GB_TAG_USED)
        next->tag = next_tag & ~(uint32_t)GB_TAG_BEFORE_USED;
    else {
        gb_tagged_unlink(next);
        bytes += next_tag & ~(uint32_t)15;
        if (GB_UNLIKELY((uintptr_t)next >= gb_the.linear.fresh))
            memset(next, 0, sizeof *next);
    }
    gb_tagged_link(c, bytes);
}

void gb_tagged_give(gb_tagged *c)
{
    tagged_merge(c, c->tag, gb_tagged_next(c, gb_tagged_bytes(c))->tag);
}

GB_NOINLINE void gb_tagged_add(gb_tagged *c, uint32_t bytes)
{
    gb_tagged_link(c, bytes);
}

GB_NOINLINE void gb_tagged_remove(gb_tagged *c)
{
    gb_tagged_unlink(c);
}

GB_NOINLINE void gb_tagged_cool(void)
{
    if (gb_the.linear.warm_bytes) {
        gb_the.linear.warm_bytes = 0;
        gb_tagged_give(gb_the.linear.warm);
    }
}

/* ---- malloc, free ---- */

/* Returns the length of a block that holds `bytes`. */
GB_INLINE uint32_t tagged_length(size_t bytes)
{
    return (uint32_t)gb_round_up(bytes < GB_TAGGED_LEAST - 4 ? GB_TAGGED_LEAST : bytes + 4, 16);
}

static void *owned_link(gb_tagged *c, glebe_heap *heap)
{
    gb_owned *owned = (gb_owned *)gb_tagged_start(c);
    c->tag |= GB_TAG_OWNED;
    owned->heap = heap;
    owned->next = heap->owned;
    owned->link = &heap->owned;
    if (owned->next)
        owned->next->link = &owned->next;
    heap->owned = owned;
    gb_tagged_at((uintptr_t)(owned + 1))->tag = GB_TAG_OWNED;
    heap->bytes += gb_tagged_bytes(c);
    gb_heap_main.bytes -= gb_tagged_bytes(c);
    return owned + 1;
}

/* Returns the block whose program's bytes start at `start`, or NULL. */
static gb_tagged *tagged_of(uintptr_t start)
{
    gb_tagged *c = gb_tagged_at(start);
    if (GB_HEAPS && start % 16 == 0 && c->tag == GB_TAG_OWNED)
        c = gb_tagged_at(start - sizeof(gb_owned));
    if (start % 16 == 0 && (c->tag & (GB_TAG_USED | GB_TAG_WARM)) == GB_TAG_USED
        && gb_tagged_next(c, gb_tagged_bytes(c))->tag & GB_TAG_BEFORE_USED)
        return c;
    return NULL;
}

GB_SHORT_BEGIN

/* Cuts c down to `bytes`, and frees the rest. */
static void tagged_cut(gb_tagged *c, uint32_t bytes)
{
    uint32_t rest = gb_tagged_bytes(c) - bytes;
    if (rest < GB_TAGGED_LEAST)
        return;
    c->tag -= rest;
    c = gb_tagged_next(c, bytes);
    c->tag = rest | GB_TAG_USED | GB_TAG_BEFORE_USED;
    gb_tagged_give(c);
}

/* Serves blocks of other heaps, aligned blocks, blocks under a limit, and requests for which memory must grow. */
void *gb_tagged_source(glebe_heap *heap, gb_request *request)
{
    size_t extra = GB_HEAPS && heap != &gb_heap_main ? sizeof(gb_owned) : 0, alignment = request->alignment;
    gb_tagged_cool();
    uint32_t length = tagged_length(request->bytes + extra),
             room = length + (alignment > 16 ? (uint32_t)alignment + GB_TAGGED_LEAST : 0);
    gb_tagged *c = NULL;
    if (gb_account_allows(heap, length) && (c = tagged_take(room)) == NULL && gb_memory_grow(room)) {
        c = tagged_take(room);
        gb_account_kept();
    }
    if (!c)
        return NULL;
    uint32_t before = (uint32_t)(gb_round_up(gb_tagged_start(c) + extra, alignment) - extra - gb_tagged_start(c));
    if (before && before < GB_TAGGED_LEAST)
        before += (uint32_t)alignment;
    if (before) {
        gb_tagged *front = c;
        c = gb_tagged_next(c, before);
        c->tag = (gb_tagged_bytes(front) - before) | GB_TAG_USED | GB_TAG_BEFORE_USED;
        front->tag -= gb_tagged_bytes(c);
        gb_tagged_give(front);
    }
    tagged_cut(c, length);
    return extra ? owned_link(c, heap) : (void *)gb_tagged_start(c);
}

/* Takes the block out of its heap's list and counts, as if it belonged to malloc's heap. */
static void owned_unlink(gb_tagged *c)
{
    gb_owned *owned = (gb_owned *)gb_tagged_start(c);
    *owned->link = owned->next;
    if (owned->next)
        owned->next->link = owned->link;
    uint32_t bytes = gb_tagged_bytes(c);
    owned->heap->bytes -= bytes;
    gb_heap_main.bytes += bytes;
    gb_tagged_at((uintptr_t)(owned + 1))->tag = 0;
    c->tag &= ~(uint32_t)GB_TAG_OWNED;
}

size_t gb_tagged_usable(uintptr_t start)
{
    const gb_tagged *c = tagged_of(start);
    return c ? (uintptr_t)c + gb_tagged_bytes(c) + 4 - start : 0;
}

glebe_heap *gb_tagged_heap(const gb_tagged *c)
{
    return GB_HEAPS && c->tag & GB_TAG_OWNED ? ((const gb_owned *)gb_tagged_start(c))->heap : &gb_heap_main;
}

glebe_heap *gb_tagged_owner(uintptr_t start)
{
    const gb_tagged *c = tagged_of(start);
    return c ? gb_tagged_heap(c) : NULL;
}

/* Shrinks the block, or grows it over free memory behind it; at the end of memory, memory grows too. */
bool gb_tagged_resize(uintptr_t start, size_t bytes)
{
    gb_tagged *c = tagged_of(start);
    if (!c || bytes > GB_BLOCK_MAX)
        return false;
    uint32_t before = gb_tagged_bytes(c), length = tagged_length(start - gb_tagged_start(c) + bytes);
    glebe_heap *heap = gb_tagged_heap(c);
    if (length > before) {
        if (!gb_account_allows(heap, length - before))
            return false;
        gb_tagged_cool();
        gb_tagged *next = gb_tagged_next(c, before);
        uint32_t more = next->tag & GB_TAG_USED ? 0 : gb_tagged_bytes(next);
        if (before + more < length) {
            if ((uintptr_t)gb_tagged_next(next, more) + GB_TAG_BYTES != gb_slice_start((uint32_t)gb_peek(gb_the.slices))
                || !gb_memory_grow(length - before))
                return false;
            more = next->tag & GB_TAG_USED ? 0 : gb_tagged_bytes(next);
            if (before + more < length)
                return false;
        }
        gb_tagged_remove(next);
        gb_tagged_next(next, more)->tag |= GB_TAG_BEFORE_USED;
        gb_the.linear.used += more;
        c->tag += more;
        uintptr_t end = (uintptr_t)c + length;
        gb_the.linear.fresh = gb_the.linear.fresh < end ? end : gb_the.linear.fresh;
    }
    tagged_cut(c, length);
    if (GB_HEAPS && c->tag & GB_TAG_OWNED) {
        heap->bytes += (size_t)gb_tagged_bytes(c) - before;
        gb_heap_main.bytes -= (size_t)gb_tagged_bytes(c) - before;
    }
    return true;
}

GB_SHORT_END

void gb_tagged_free(uintptr_t start)
{
    gb_tagged *c = gb_tagged_at(start & ~(uintptr_t)15);
    uint32_t tag = c->tag, next_tag = gb_tagged_next(c, tag & ~(uint32_t)15)->tag;
    if (GB_UNLIKELY((tag & (GB_TAG_USED | GB_TAG_OWNED | GB_TAG_WARM)) != GB_TAG_USED || start % 16 != 0
            || !(next_tag & GB_TAG_BEFORE_USED))) {
        c = tagged_of(start);
        if (!c) {
            gb_report_address("free", (void *)start);
            return;
        }
        if (GB_HEAPS)
            owned_unlink(c);
        tag = c->tag;
        next_tag = gb_tagged_next(c, gb_tagged_bytes(c))->tag;
    }
    if (tag >= GB_TAGGED_EXACT) { /* this block becomes warm, and the previous warm block is merged instead */
        gb_tagged *warm = gb_the.linear.warm;
        uint32_t warm_bytes = gb_the.linear.warm_bytes;
        c->tag = tag | GB_TAG_WARM;
        gb_the.linear.warm = c;
        gb_the.linear.warm_bytes = tag & ~(uint32_t)15;
        if (warm_bytes == 0)
            return;
        c = warm;
        tag = c->tag;
        next_tag = gb_tagged_next(c, warm_bytes)->tag;
    }
    tagged_merge(c, tag, next_tag);
}
