/* Pools: objects of few sizes in one array, for programs that know the sizes and a limit. An object is a number of
 * units long. Each length has a list of free objects, linked through their first words. The two inlined functions of
 * glebe.h pop and push there.
 *
 *     64 bits: one huge block, whose address space is as long as the limit, so that it grows in place
 *
 *          first                     fresh       end
 *         | object | free | object | never used | address space up to the limit        index = unit, from 1
 *
 *     32 bits: segments. Each is a block of the heap, one per step of growth, and starts on a unit from the pool's base
 *
 *         ... | head | object | free | object | ... other blocks ... | head | object | never used |
 *                                                                              index = unit, from base
 *
 * So `base + index * unit` is the address in both. A length whose list is empty gets a batch from `fresh`. When `fresh`
 * reaches the end the pool grows by a step. If it cannot grow, it cuts a longer free object in two. docs/decisions/0012
 * says why.
 *
 * The audit build keeps the open lists empty and `bytes` 0, so that each call comes here. It records for each unit
 * which object starts there. It fills free objects with GB_POOL_POISON, and checks them when it hands them out.
 *
 * 1. A unit below `fresh` is in exactly one object, which is in use, or on its length's list once.
 * 2. Lists hold objects below `fresh`. Segments before `current` are carved to their ends.
 *
 * No lock: the pool's user owns its heap, and pools share only the heap's memory. */
#include "../serve/alloc.h"
#include "../serve/slow.h"
#include "api.h"

enum { POOL_UNIT_MAX = 4096, POOL_STEP_BYTES = 64 << 10, POOL_BATCH_BYTES = 1024, POOL_BATCHES_MIN = 16 };

static gb_pool *pool_of(const glebe_pool *open)
{
    return (gb_pool *)((uintptr_t)open - offsetof(gb_pool, open));
}

static const gb_segment *pool_segment(const gb_pool *pool, uintptr_t at)
{
    for (const gb_segment *segment = pool->segments; segment; segment = gb_pool_next(pool, segment))
        if (at >= segment->start && at < gb_pool_carved(pool, segment))
            return segment;
    return NULL;
}

bool gb_pool_holds(const gb_pool *pool, uintptr_t at, size_t units)
{
    const gb_segment *segment = pool_segment(pool, at);
    return segment && (at - segment->start) % pool->open.unit_bytes == 0
        && gb_pool_carved(pool, segment) - at >= units * pool->open.unit_bytes;
}

/* ---- audit ---- */

static uint16_t *pool_state(const gb_pool *pool, uintptr_t at)
{
    const gb_segment *segment = pool_segment(pool, at);
    return segment->states + (at - segment->start) / pool->open.unit_bytes;
}

static void pool_poison(const gb_pool *pool, uintptr_t at, size_t units)
{
    if (GB_AUDIT)
        memset((void *)at, GB_POOL_POISON, units * pool->open.unit_bytes);
}

static void pool_audit_born(const gb_pool *pool, void *object, size_t units)
{
    const unsigned char *bytes = object;
    size_t i = sizeof(void *), end = units * pool->open.unit_bytes;
    while (i < end && bytes[i] == GB_POOL_POISON)
        i++;
    if (i < end)
        gb_report("glebe_pool_alloc", object,
            "free object of %zu units was written to after it was freed, %zu bytes inside", units, i);
    *pool_state(pool, (uintptr_t)object) = (uint16_t)(units | GB_POOL_USED);
    pool_poison(pool, (uintptr_t)object, units);
}

static bool pool_audit_dies(const gb_pool *pool, void *object, size_t units)
{
    const char *call = "glebe_pool_free";
    uintptr_t at = (uintptr_t)object, off = (at - pool->open.base) % pool->open.unit_bytes;
    uint16_t *state = pool_state(pool, at);
    size_t inside = 0;
    while (state[-(ptrdiff_t)inside] == 0)
        inside++;
    unsigned has = state[-(ptrdiff_t)inside] & ~GB_POOL_USED;
    inside = inside * pool->open.unit_bytes + off;
    if (inside)
        gb_report(call, object, "address is %zu bytes inside an object of %u units that starts at %p", inside, has,
            (void *)(at - inside));
    else if (!(*state & GB_POOL_USED))
        gb_report(call, object, "double free: the object of %u units here is free already", has);
    else if (has != units)
        gb_report(call, object, "size %zu is wrong: the object has %u units", units, has);
    else
        return true;
    return false;
}

/* ---- free objects ---- */

static void pool_put(gb_pool *pool, uintptr_t at, size_t units)
{
    *(glebe_pool_link *)at = pool->lists[units];
    pool->lists[units] = (void *)at;
    if (GB_AUDIT)
        *pool_state(pool, at) = (uint16_t)units;
}

static void *pool_pop(gb_pool *pool, size_t units)
{
    void *object = pool->lists[units];
    pool->lists[units] = *(glebe_pool_link *)object;
    return object;
}

/* ---- growth ---- */

/* Makes room for the states of the units up to `end`. */
static bool segment_audit(gb_pool *pool, gb_segment *segment, uintptr_t end)
{
    if (!GB_AUDIT)
        return true;
    size_t before = (segment->end - segment->start) / pool->open.unit_bytes,
           units = (end - segment->start) / pool->open.unit_bytes;
    uint16_t *states = glebe_heap_realloc(pool->heap, segment->states, (units ? units : 1) * sizeof *states);
    if (!states)
        return false;
    segment->states = states;
    memset(states + before, 0, (units - before) * sizeof *states);
    return true;
}

static void *whole_source(glebe_heap *heap, gb_request *request)
{
    (void)heap;
    return GB_POOL_SEGMENTS ? NULL : gb_huge_resize(gb_huge_find(request->block), request->bytes, true);
}

/* Resizes the pool's one block to `bytes`, in whole OS pages. */
static bool whole_resize(gb_pool *pool, size_t bytes)
{
    bool grows = bytes > pool->held_bytes;
    size_t unit = pool->open.unit_bytes, most = pool->limit_bytes < bytes ? pool->limit_bytes : bytes;
    uintptr_t end = pool->whole.start + most / unit * unit;
    if (grows && !segment_audit(pool, &pool->whole, end))
        return false;
    gb_request request = {.bytes = bytes, .block = (void *)pool->whole.start};
    void *block = grows ? gb_serve_quietly(pool->heap, whole_source, &request) : whole_source(pool->heap, &request);
    gb_retain_bound();
    if (!block)
        return false;
    pool->whole.end = end;
    pool->held_bytes = bytes;
    return true;
}

/* Returns a new segment, at the start of a new block; NULL at the limit, or if there is no memory. */
static gb_segment *segment_new(gb_pool *pool)
{
    size_t unit = pool->open.unit_bytes, room = pool->limit_bytes;
    for (const gb_segment *segment = pool->segments; segment; segment = segment->next)
        room -= segment->end - segment->start;
    size_t payload = (room < pool->step_bytes ? room : pool->step_bytes) / unit * unit,
           bytes = sizeof(gb_segment) + unit + payload;
    gb_segment *segment = payload ? gb_alloc_seldom(pool->heap, bytes) : NULL;
    if (!segment)
        return NULL;
    uintptr_t start = (uintptr_t)(segment + 1);
    start += unit - (start - pool->open.base) % unit;
    *segment = (gb_segment){NULL, start, start, bytes, NULL};
    if (!segment_audit(pool, segment, start + payload)) {
        glebe_heap_free(pool->heap, segment);
        return NULL;
    }
    segment->end = start + payload;
    pool->held_bytes += bytes;
    return segment;
}

/* Sets the bounds within which an address may be an object's. */
static void pool_bounds(gb_pool *pool)
{
    uintptr_t first = UINTPTR_MAX, end = 0;
    for (const gb_segment *segment = pool->segments; segment; segment = segment->next) {
        first = segment->start < first ? segment->start : first;
        end = segment->end > end ? segment->end : end;
    }
    pool->open.first = pool->segments ? first : 0;
    pool->open.bytes = GB_AUDIT || !pool->segments ? 0 : end - first;
}

static bool pool_grow(gb_pool *pool)
{
    if (!GB_POOL_SEGMENTS) {
        size_t most = gb_round_up(pool->limit_bytes, gb_the.page_bytes), bytes = pool->held_bytes + pool->step_bytes;
        bytes = bytes < most ? bytes : most;
        if (bytes == pool->held_bytes || !whole_resize(pool, bytes))
            return false;
    } else {
        gb_segment **link = pool->current ? &pool->current->next : &pool->segments;
        if (!*link && !(*link = segment_new(pool)))
            return false;
        size_t rest = pool->current ? (pool->current->end - pool->fresh) / pool->open.unit_bytes : 0;
        uintptr_t at = pool->fresh;
        if (rest) {
            pool->fresh = pool->current->end;
            pool_poison(pool, at, rest);
            pool_put(pool, at, rest); /* it is shorter than the requested object, so there is a list for it */
        }
        pool->current = *link;
        pool->fresh = pool->current->start;
    }
    pool_bounds(pool);
    return true;
}

/* Puts a batch of fresh objects on the list: in a small pool few, since other lengths need the rest of its limit. */
static bool pool_carve(gb_pool *pool, size_t units)
{
    size_t bytes = units * pool->open.unit_bytes, most = pool->limit_bytes / POOL_BATCHES_MIN;
    while (!pool->current || pool->current->end - pool->fresh < bytes)
        if (!pool_grow(pool))
            return false;
    size_t count = (pool->current->end - pool->fresh) / bytes,
           batch = (most < POOL_BATCH_BYTES ? most : POOL_BATCH_BYTES) / bytes;
    batch = batch == 0 ? 1 : batch;
    count = count < batch ? count : batch;
    uintptr_t at = pool->fresh;
    pool->fresh += count * bytes;
    pool_poison(pool, at, count * units);
    while (count-- > 0)
        pool_put(pool, at + count * bytes, units);
    return true;
}

/* Cuts a longer free object in two, as there is no more memory. */
static bool pool_cut(gb_pool *pool, size_t units)
{
    for (size_t longer = units + 1; longer <= pool->open.most_units; longer++)
        if (pool->lists[longer]) {
            uintptr_t at = (uintptr_t)pool_pop(pool, longer);
            pool_put(pool, at + units * pool->open.unit_bytes, longer - units);
            pool_put(pool, at, units);
            return true;
        }
    return false;
}

void *glebe_pool_alloc_slow(glebe_pool *open, size_t units)
{
    GB_ENTRY;
    gb_pool *pool = pool_of(open);
    if (units - 1 >= open->most_units) {
        gb_report(
            "glebe_pool_alloc", open, "no object has %zu units: this pool's have 1 to %u", units, open->most_units);
        errno = EINVAL;
        return NULL;
    }
    int saved = errno;
    if (!pool->lists[units] && !pool_carve(pool, units) && !pool_cut(pool, units))
        return gb_out_of_memory();
    errno = saved;
    void *object = pool_pop(pool, units);
    if (GB_AUDIT)
        pool_audit_born(pool, object, units);
    return object;
}

void glebe_pool_free_slow(glebe_pool *open, void *object, size_t units)
{
    GB_ENTRY;
    gb_pool *pool = pool_of(open);
    if (!object)
        return;
    if (!pool_segment(pool, (uintptr_t)object))
        gb_report("glebe_pool_free", object, "address is not from this pool");
    else if (!GB_AUDIT || pool_audit_dies(pool, object, units)) {
        pool_poison(pool, (uintptr_t)object, units);
        pool_put(pool, (uintptr_t)object, units);
    }
}

/* ---- the whole pool ---- */

static void segment_free(gb_pool *pool, gb_segment *segment)
{
    if (GB_AUDIT)
        glebe_heap_free(pool->heap, segment->states);
    glebe_heap_free(pool->heap, GB_POOL_SEGMENTS ? (void *)segment : (void *)segment->start);
}

/* Returns the inverse of an odd number modulo 2^32. Three bits of `odd` itself are correct; each round doubles their
 * number. */
static uint32_t pool_inverse(uint32_t odd)
{
    uint32_t x = odd;
    for (int i = 0; i < 4; i++)
        x *= 2 - odd * x;
    return x;
}

static bool pool_begin(gb_pool *pool)
{
    if (GB_POOL_SEGMENTS) {
        pool->open.base = GB_LINEAR ? gb_the.base - pool->open.unit_bytes : 0;
        return true;
    }
    size_t most = gb_round_up(pool->limit_bytes, gb_the.page_bytes),
           bytes = pool->step_bytes < most ? pool->step_bytes : most;
    void *block = most > GB_BLOCK_MAX
        ? NULL
        : gb_serve_quietly(pool->heap, gb_huge_source, &(gb_request){.bytes = bytes, .alignment = 1, .room = most});
    if (!block)
        return false;
    pool->whole.start = pool->whole.end = pool->fresh = (uintptr_t)block;
    pool->segments = pool->current = &pool->whole;
    pool->open.base = pool->fresh - pool->open.unit_bytes;
    pool->held_bytes = 0;
    if (!whole_resize(pool, bytes)) {
        segment_free(pool, &pool->whole);
        return false;
    }
    pool_bounds(pool);
    return true;
}

glebe_pool *glebe_pool_create(
    glebe_heap *heap, size_t unit_bytes, size_t most_units, size_t limit_bytes, size_t step_bytes)
{
    GB_ENTRY;
    if (unit_bytes - 1 >= POOL_UNIT_MAX || unit_bytes % sizeof(void *) != 0 || most_units - 1 >= GB_POOL_UNITS_MAX
        || limit_bytes < unit_bytes * most_units || limit_bytes > GB_MAX_BYTES
        || limit_bytes / unit_bytes >= UINT32_MAX) {
        errno = EINVAL;
        return NULL;
    }
    bool own = !heap;
    if (own && !(heap = glebe_heap_create(0)))
        return NULL;
    gb_pool *pool = gb_calloc(heap, 1, sizeof *pool + (most_units + 1) * sizeof(void *) * (GB_AUDIT ? 2 : 1));
    if (pool) {
        size_t least = unit_bytes * most_units, step = step_bytes ? step_bytes : POOL_STEP_BYTES;
        step = step > limit_bytes ? limit_bytes : step;
        pool->heap = heap;
        pool->own = own;
        pool->limit_bytes = limit_bytes;
        pool->step_bytes = gb_round_up(step < least ? least : step, GB_POOL_SEGMENTS ? 16 : gb_the.page_bytes);
        pool->lists = pool->open_lists + (GB_AUDIT ? most_units + 1 : 0);
        pool->open.unit_bytes = (uint32_t)unit_bytes;
        pool->open.most_units = (uint32_t)most_units;
        pool->open.shift = gb_ctz64(unit_bytes);
        pool->open.inverse = pool_inverse((uint32_t)unit_bytes >> pool->open.shift);
    }
    if (!pool || !pool_begin(pool)) {
        if (own)
            glebe_heap_destroy(heap);
        else
            glebe_heap_free(heap, pool);
        return gb_out_of_memory();
    }
    pool->link = &heap->pools;
    pool->next = heap->pools;
    if (pool->next)
        pool->next->link = &pool->next;
    heap->pools = pool;
    return &pool->open;
}

void glebe_pool_destroy(glebe_pool *open)
{
    GB_ENTRY;
    if (!open)
        return;
    gb_pool *pool = pool_of(open);
    if (pool->own) {
        glebe_heap_destroy(pool->heap);
        return;
    }
    *pool->link = pool->next;
    if (pool->next)
        pool->next->link = pool->link;
    for (gb_segment *segment = pool->segments, *next; segment; segment = next) {
        next = segment->next;
        segment_free(pool, segment);
    }
    glebe_heap_free(pool->heap, pool);
}

void glebe_pool_reset(glebe_pool *open, bool give_back)
{
    GB_ENTRY;
    gb_pool *pool = pool_of(open);
    memset(pool->lists, 0, (open->most_units + 1) * sizeof(void *));
    if (GB_AUDIT)
        for (const gb_segment *segment = pool->segments; segment; segment = gb_pool_next(pool, segment)) {
            size_t units = (gb_pool_carved(pool, segment) - segment->start) / open->unit_bytes;
            pool_poison(pool, segment->start, units);
            memset(segment->states, 0, units * sizeof *segment->states);
        }
    if (!pool->segments)
        return;
    pool->current = pool->segments;
    pool->fresh = pool->segments->start;
    if (give_back && !GB_POOL_SEGMENTS && pool->held_bytes > pool->step_bytes)
        whole_resize(pool, pool->step_bytes);
    while (give_back && pool->segments->next) {
        gb_segment *segment = pool->segments->next;
        pool->segments->next = segment->next;
        pool->held_bytes -= segment->bytes;
        segment_free(pool, segment);
    }
    pool_bounds(pool);
}

void glebe_pool_stats_read(const glebe_pool *open, glebe_pool_stats *out)
{
    GB_ENTRY;
    const gb_pool *pool = pool_of(open);
    size_t carved = 0;
    for (const gb_segment *segment = pool->segments; segment; segment = gb_pool_next(pool, segment))
        carved += gb_pool_carved(pool, segment) - segment->start;
    *out = (glebe_pool_stats){pool->limit_bytes, pool->held_bytes, 0, 0, 0};
    for (size_t units = 1; units <= open->most_units; units++)
        for (void *at = pool->lists[units]; at && out->free_bytes < carved; at = *(glebe_pool_link *)at) {
            out->free_bytes += units * open->unit_bytes;
            out->free_objects++;
        }
    out->used_bytes = carved - out->free_bytes;
}
