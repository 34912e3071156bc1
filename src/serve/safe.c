/* The safe build: a freed block is used again only when no word of the program's memory points into it. So a pointer
 * that the program kept by mistake leads to zeros, never to another block.
 *
 *     free(p) --> zero the block, hold it --> ... --> sweep --> no word points into it --> free for reuse
 *                                                           --> some word does         --> held until the next sweep
 *
 *     sweep     stop all threads --> read all memory: mark what words point into --> choose --> start the threads
 *               --> release what was chosen
 *
 * A sweep reads memory from end to end, without following references: a block that is in use counts whether or not the
 * program can reach it. That is faster than following them, needs no stack, and finds each word once. A held block is
 * zero, so held blocks do not keep each other. Blocks above 64 KiB give their memory back at once, and keep only their
 * addresses; so do blocks above 8 KiB that a sweep did not release.
 *
 * A sweep is due when the bytes that are held and resident reach a share of the bytes that the last sweep read. So the
 * work of sweeping is proportional to the bytes freed, and the memory held is bounded by that share; blocks that a
 * sweep found reached come on top.
 *
 * 1. Held blocks are bits in the shadow (base/held.c), or `held` of an extent. They need no list and no memory.
 * 2. free zeroes a block before it sets the bit, and touches it no more: a sweep may release it at once.
 * 3. The sweeping thread holds the region's lock while the world is stopped, so the tables are consistent. It releases
 *    blocks without a lock, as ordinary frees.
 * 4. Blocks of a heap of the program's (glebe_heap_create) are not held: the heap may be destroyed as a whole.
 *
 * Not seen, so the program must keep another pointer: addresses that are encoded (complemented, compressed, in parts),
 * at an address that is no multiple of a word's size, in memory shared with other processes, or only in the kernel
 * (epoll_data). Sources: docs/decisions/0054-safe-build.md. */
#include "alloc.h"

enum {
    SAFE_SHARE = 5, /* a sweep is due when the held memory is so large a part of the rest */
    SAFE_COUNT_BYTES = 64 << 10 /* a thread counts so many bytes by itself */
};
#define SAFE_LEAST_BYTES ((size_t)512 << 10) /* and at least so much: a small process is swept seldom */
#define SAFE_AWAY_BYTES ((size_t)1 << 30) /* a sweep is due, too, when so much address space is held */
#define SAFE_KEPT_LEAST ((size_t)8 << 10) /* blocks so large give their memory back if a sweep does not release them */
#define SAFE_PURGED_FROM GB_MEDIUM_MAX /* larger blocks give their memory back at once */

static struct safe_state {
    _Atomic size_t held_bytes, away_bytes; /* since the last sweep: zeroed, and given back */
    _Atomic size_t due_bytes; /* 0: SAFE_LEAST_BYTES */
    _Atomic uint32_t sweeper; /* the process that sweeps; 0: none. The child of a fork does not inherit a sweep */
    uint8_t number; /* of the sweep; a granule that was reached by one 255 sweeps ago is held in vain */
    bool told; /* that a sweep failed */
} safe;

static GB_TLS size_t safe_counted; /* bytes of blocks that this thread freed, not in held_bytes yet */

/* ---- free ---- */

static GB_NOINLINE void safe_count(_Atomic size_t *bytes, size_t more)
{
    size_t due = gb_load_relaxed(&safe.due_bytes);
    due = due < SAFE_LEAST_BYTES ? SAFE_LEAST_BYTES : due;
    size_t now = atomic_fetch_add_explicit(bytes, more, memory_order_relaxed) + more;
    if (now >= (bytes == &safe.held_bytes ? due : SAFE_AWAY_BYTES))
        gb_safe_sweep();
}

static GB_NOINLINE void safe_counted_enough(void)
{
    size_t bytes = safe_counted;
    safe_counted = 0;
    safe_count(&safe.held_bytes, bytes);
}

/* Counts a small block that is held: for this thread alone, until there are many bytes. */
GB_INLINE void safe_count_small(size_t bytes)
{
    safe_counted += bytes;
    if (GB_UNLIKELY(safe_counted >= SAFE_COUNT_BYTES))
        safe_counted_enough();
}

/* Makes a block zero; a long one by giving its memory back. */
static void safe_clear(void *block, size_t bytes)
{
    if (bytes <= SAFE_PURGED_FROM || gb_port_purge((uintptr_t)block, bytes, false) != GB_PURGE_ZERO)
        gb_clear_touched(block, bytes);
}

/* Returns the bytes of a block in a small or medium page. */
static size_t paged_bytes(const gb_page *page, const void *block)
{
    return gb_classes[GB_MIXES && page->cls == GB_MIXED ? gb_mixed_class(page, block) : page->cls].bytes;
}

static bool heap_keeps(const gb_page *page)
{
    return gb_load_relaxed(&gb_page_heap(page)->kind) == GB_HEAP_OWNED;
}

static GB_NOINLINE void safe_free_huge(const char *call, glebe_heap *self, void *block)
{
    gb_extent *extent = gb_huge_find(block);
    if (!extent || extent->collected || gb_load_relaxed(&gb_heap_at(extent->heap)->kind) == GB_HEAP_OWNED) {
        gb_free_now(call, self, block); /* reports an address that is no block */
        return;
    }
    size_t bytes = extent->bytes;
    safe_clear(block, bytes);
    if (__atomic_exchange_n(&extent->held, GB_HELD, __ATOMIC_RELEASE))
        gb_report_address(call, block);
    else
        safe_count(&safe.away_bytes, bytes);
}

static GB_NOINLINE void safe_free_unusual(const char *call, glebe_heap *self, gb_page *entry, void *block)
{
    gb_page *page = gb_page_head(entry), *large = page->kind == GB_FREE ? gb_large_at(block) : NULL;
    bool paged = page->kind == GB_SMALL || page->kind == GB_MEDIUM;
    if (large ? gb_held_block(block) : !paged || !gb_block_in_use(page, block)) {
        gb_report_address(call, block);
        return;
    }
    if (heap_keeps(large ? large : page)) {
        gb_free_now(call, self, block);
        return;
    }
    size_t bytes = large ? gb_page_bytes(large) : paged_bytes(page, block);
    safe_clear(block, bytes);
    if (!gb_held_set(block))
        gb_report_address(call, block);
    else
        safe_count(bytes > SAFE_PURGED_FROM ? &safe.away_bytes : &safe.held_bytes, bytes);
}

/* Holds a small block of the thread's own heap. */
static GB_NOINLINE void safe_hold(void *block, size_t bytes)
{
    memset(block, 0, bytes);
    gb_held_set(block);
    safe_count_small(bytes);
}

/* The first tests are those of gb_free_now. A small block of the thread's own heap takes no other function's help, and
 * is a few words: no call. */
void gb_safe_free(const char *call, glebe_heap *self, void *block)
{
    size_t slice = ((uintptr_t)block - gb_the.base) >> GB_SLICE_LOG2;
    if (GB_UNLIKELY(slice >= gb_peek(gb_the.slices))) {
        if (block)
            safe_free_huge(call, self, block);
        return;
    }
    gb_page *page = gb_slice_head(slice);
    uint32_t index, bytes = gb_classes[page->cls].bytes;
    if (GB_UNLIKELY(gb_peek(page->owner) != (uintptr_t)self || self != gb_self
            || !gb_class_exact(page->cls, (uintptr_t)block - gb_page_start(page), &index) || index >= page->bump)) {
        safe_free_unusual(call, self, gb_the.table + slice, block);
        return;
    }
    uint64_t bit, *held = gb_held_word(block, &bit);
    if (GB_UNLIKELY(__atomic_load_n(held, __ATOMIC_RELAXED) & bit)) {
        safe_free_unusual(call, self, gb_the.table + slice, block);
        return;
    }
    if (GB_UNLIKELY(bytes > SECURE_FEW)) {
        safe_hold(block, bytes);
        return;
    }
    secure_words_clear(block, (uint64_t *)block + bytes / sizeof(uint64_t));
    __atomic_fetch_or(held, bit, __ATOMIC_RELEASE);
    safe_count_small(bytes);
}

/* ---- what words point into ---- */

typedef uintptr_t __attribute__((may_alias)) safe_word;

/* Copied into each loop over words: the compiler must not read it again after each write to the shadow. */
typedef struct safe_target {
    uintptr_t base;
    size_t chunk_bytes; /* from gb_the.base */
    uint64_t *shadow;
} safe_target;

typedef struct safe_sweep {
    safe_target target;
    size_t words; /* of the shadow, of one kind */
    size_t extent_bytes; /* from gb_the.extents_base */
    size_t reach; /* from gb_the.base to the end of chunks and extents */
    size_t read_bytes;
    size_t first, end; /* granules: no word points to one outside of them */
} safe_sweep;

static GB_NOINLINE void reach_extent(safe_sweep *sweep, size_t offset)
{
    if (offset >= sweep->extent_bytes)
        return;
    size_t granule = offset >> GB_GRANULE_LOG2;
    gb_the.extents[granule].reached = safe.number;
    sweep->first = granule < sweep->first ? granule : sweep->first;
    sweep->end = granule < sweep->end ? sweep->end : granule + 1;
}

GB_INLINE void reach_word(safe_sweep *sweep, safe_target target, uintptr_t word)
{
    size_t offset = word - target.base;
    if (GB_LIKELY(offset < target.chunk_bytes))
        target.shadow[2 * (offset >> 10) + 1] |= (uint64_t)1 << (offset >> 4) % 64;
    else
        reach_extent(sweep, word - gb_the.extents_base);
}

static void reach_words(safe_sweep *sweep, const safe_word *at, const safe_word *end)
{
    const safe_target target = sweep->target;
    size_t reach = sweep->reach;
    for (; at < end; at++)
        if (*at - target.base < reach)
            reach_word(sweep, target, *at);
}

#ifdef __x86_64__
/* Compares the high halves of sixteen words at once with those of our addresses. Most words are none. Vectors compare
 * as signed numbers. */
typedef unsigned reach_halves __attribute__((vector_size(32)));
typedef int reach_signed __attribute__((vector_size(32)));
typedef float reach_floats __attribute__((vector_size(32), may_alias));

/* Returns a bit for each of eight words: words 0, 1, 4, 5, 2, 3, 6, 7. */
static inline __attribute__((always_inline, target("avx2,bmi,bmi2"))) unsigned reach_eight(
    const reach_floats *words, reach_halves low, reach_halves reach)
{
    enum { HIGH_HALVES = 0xdd };
    reach_halves high = (reach_halves)__builtin_ia32_shufps256(words[0], words[1], HIGH_HALVES);
    reach_signed ours = (reach_signed)reach > (reach_signed)(high - low);
    return (unsigned)__builtin_ia32_movmskps256((reach_floats)ours);
}

static __attribute__((target("avx2,bmi,bmi2"))) void reach_words_wide(
    safe_sweep *sweep, const safe_word *at, const safe_word *end)
{
    enum { AHEAD = 128, AT_ONCE = 16 };
    const safe_target target = sweep->target;
    const unsigned first = (unsigned)(target.base >> 32), sign = (unsigned)1 << 31,
                   last = (unsigned)((target.base + sweep->reach - 1) >> 32);
    const reach_halves zero = {0}, low = zero + (first + sign), reach = zero + (last - first + 1 + sign);
    for (; at < end && (uintptr_t)at % sizeof low != 0; at++)
        reach_words(sweep, at, at + 1);
    for (; end - at >= AT_ONCE; at += AT_ONCE) {
        const reach_floats *words = (const reach_floats *)(const void *)at;
        __builtin_prefetch(at + AHEAD); /* processors stop at the end of an OS page by themselves */
        __builtin_prefetch(at + AHEAD + AT_ONCE / 2);
        unsigned bits = reach_eight(words, low, reach) | reach_eight(words + 2, low, reach) << 8;
        if (!bits)
            continue;
        bits = (bits & 0xc3c3) | (bits & 0x0c0c) << 2 | (bits & 0x3030) >> 2; /* in the words' order */
        for (; bits; bits &= bits - 1)
            reach_word(sweep, target, at[__builtin_ctz(bits)]);
    }
    reach_words(sweep, at, end);
}

static bool reach_wide(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}
#else
#define reach_words_wide reach_words
static bool reach_wide(void) { return false; }
#endif

/* Marks what the words of a piece of memory point into. glebe's own tables have no addresses of blocks in use. */
static void reach_piece(void *context, uintptr_t from, uintptr_t to)
{
    safe_sweep *sweep = context;
    uintptr_t tables = (uintptr_t)gb_the.table;
    if (from < tables && to > tables) {
        reach_piece(context, from, tables);
        from = tables;
    }
    if (from >= tables && from < gb_the.base)
        from = to < gb_the.base ? to : gb_the.base;
    if (from >= to)
        return;
    sweep->read_bytes += to - from;
    (reach_wide() ? reach_words_wide : reach_words)(sweep, (const safe_word *)from, (const safe_word *)to);
}

/* ---- choose ---- */

/* Returns whether a word points into [from, to), counted in cells of 16 bytes. */
static bool cells_reached(size_t from, size_t to)
{
    const uint64_t *reached = gb_the.shadow + 1;
    uint64_t first = ~(uint64_t)0 << from % 64, last = ~(uint64_t)0 >> (63 - (to - 1) % 64);
    size_t i = from / 64, end = (to - 1) / 64;
    if (i == end)
        return reached[2 * i] & first & last;
    if (reached[2 * i] & first)
        return true;
    while (++i < end)
        if (reached[2 * i])
            return true;
    return reached[2 * end] & last;
}

/* Returns the held blocks that begin in word `i` of the shadow and that no word points into. They are blocks of one
 * page, mostly of one class, or one large block. */
static uint64_t choose_word(size_t i, uint64_t held)
{
    const gb_page *page = gb_page_head(gb_page_entry((void *)(gb_the.base + i * 1024)));
    bool mixed = GB_MIXES && page->cls == GB_MIXED, large = page->kind == GB_FREE;
    size_t cells = mixed || large ? 64 : gb_classes[page->cls].bytes / 16;
    uint64_t chosen = 0, here = cells < 64 ? ((uint64_t)1 << cells) - 1 : 0, reached = gb_the.shadow[2 * i + 1];
    for (; held; held &= held - 1) {
        unsigned bit = gb_ctz64(held);
        if (GB_LIKELY(bit + cells < 64)) {
            chosen |= reached >> bit & here ? 0 : held & -held;
            continue;
        }
        size_t cell = i * 64 + bit;
        void *block = (void *)(gb_the.base + cell * 16);
        size_t bytes = large ? gb_page_bytes(gb_large_at(block)) : paged_bytes(page, block);
        if (!cells_reached(cell, cell + bytes / 16))
            chosen |= held & -held;
    }
    return chosen;
}

/* Returns whether a word may point into the extent that begins at granule `i`. */
static bool extent_reached(const safe_sweep *sweep, size_t i)
{
    size_t end = i + gb_the.extents[i].granules, from = i > sweep->first ? i : sweep->first;
    end = end < sweep->end ? end : sweep->end;
    while (from < end && gb_the.extents[from].reached != safe.number)
        from++;
    return from < end;
}

/* Replaces the bits of what words point into by those of the blocks to release; with `none`, by zero. */
static void safe_choose(const safe_sweep *sweep, bool none)
{
    for (size_t i = 0; i < sweep->words; i++) {
        uint64_t held = none ? 0 : gb_the.shadow[2 * i], chosen = held ? choose_word(i, held) : 0;
        if (chosen || gb_the.shadow[2 * i + 1])
            gb_the.shadow[2 * i + 1] = chosen;
    }
    size_t granules = sweep->extent_bytes >> GB_GRANULE_LOG2;
    for (size_t i = 0; i < granules; i += gb_the.extents[i].granules)
        if (gb_the.extents[i].held)
            gb_the.extents[i].held = none || extent_reached(sweep, i) ? GB_HELD : GB_RELEASED;
}

/* ---- release ---- */

/* Gives back the OS pages of medium blocks that stay held: they are zero. `kept` are those that begin in word `i`. */
static void purge_kept(size_t i, uint64_t kept)
{
    const gb_page *page = gb_page_head(gb_page_entry((void *)(gb_the.base + i * 1024)));
    if (page->kind != GB_MEDIUM || gb_classes[page->cls].bytes < SAFE_KEPT_LEAST)
        return;
    for (; kept; kept &= kept - 1) {
        uintptr_t from = gb_the.base + (i * 64 + gb_ctz64(kept)) * 16, to = from + gb_classes[page->cls].bytes;
        from = gb_round_up(from, gb_the.page_bytes);
        to = gb_round_down(to, gb_the.page_bytes);
        if (from < to)
            gb_port_purge(from, to - from, false);
    }
}

static void release_small(const safe_sweep *sweep)
{
    for (size_t i = 0; i < sweep->words; i++) {
        uint64_t chosen = gb_the.shadow[2 * i + 1],
                 kept = __atomic_load_n(gb_the.shadow + 2 * i, __ATOMIC_RELAXED) & ~chosen;
        if (kept)
            purge_kept(i, kept);
        if (!chosen)
            continue;
        gb_the.shadow[2 * i + 1] = 0;
        __atomic_fetch_and(gb_the.shadow + 2 * i, ~chosen, __ATOMIC_RELAXED);
        for (; chosen; chosen &= chosen - 1)
            gb_free_now("free", gb_self, (void *)(gb_the.base + (i * 64 + gb_ctz64(chosen)) * 16));
    }
}

/* Returns the next extent to release, from granule *from on, and makes it an ordinary one; NULL if there is none. */
static gb_extent *release_next(size_t *from, size_t granules)
{
    gb_extent *found = NULL;
    gb_lock_take(&gb_the.lock);
    while (*from < granules && !found) {
        gb_extent *extent = gb_the.extents + *from;
        if (extent->state == GB_EXTENT_USED && extent->held == GB_RELEASED)
            found = extent;
        *from += extent->state == GB_EXTENT_INSIDE ? 1 : extent->granules;
    }
    if (found)
        found->held = 0;
    gb_lock_drop(&gb_the.lock);
    return found;
}

static void release_huge(const safe_sweep *sweep)
{
    gb_extent *extent;
    size_t from = 0;
    while ((extent = release_next(&from, sweep->extent_bytes >> GB_GRANULE_LOG2)) != NULL)
        gb_free_now("free", gb_self, (void *)gb_extent_start(extent));
}

/* ---- sweep ---- */

/* Reads all memory and chooses, with the world stopped. Returns false if that failed. */
static bool safe_look(safe_sweep *sweep)
{
    gb_lock_take(&gb_the.lock);
    bool stopped = gb_port_world_stop(), all = false;
    if (stopped) {
        size_t chunk_bytes = gb_load_relaxed(&gb_the.slices) << GB_SLICE_LOG2;
        sweep->target = (safe_target){gb_the.base, chunk_bytes, gb_the.shadow};
        sweep->extent_bytes = (size_t)gb_load_relaxed(&gb_the.huge.top) << GB_GRANULE_LOG2;
        sweep->words = chunk_bytes >> 10;
        sweep->first = SIZE_MAX;
        safe.number += safe.number == UINT8_MAX ? 2 : 1; /* never 0 */
        sweep->reach = chunk_bytes;
        if (sweep->extent_bytes)
            sweep->reach = gb_the.extents_base + sweep->extent_bytes - gb_the.base;
        all = gb_port_world_memory(reach_piece, sweep);
        safe_choose(sweep, !all);
        gb_port_world_start();
    }
    gb_lock_drop(&gb_the.lock);
    return all;
}

static void safe_tell(void)
{
    static const char text[] =
        "glebe: the safe build cannot read this process's memory (/proc/self), so freed memory is not used again\n";
    if (!safe.told)
        gb_port_print(text, sizeof text - 1);
    safe.told = true;
}

/* A sweep that fails is tried again when as many bytes more were freed. */
bool gb_safe_sweep(void)
{
    uint32_t process = gb_port_process(), sweeper = gb_load_relaxed(&safe.sweeper);
    if (process != gb_the.process) /* the child of a vfork: the memory, and the threads that use it, are the parent's */
        return false;
    if (sweeper == process || !atomic_compare_exchange_strong(&safe.sweeper, &sweeper, process))
        return false;
    safe_sweep sweep = {0};
    size_t held = safe.held_bytes;
    if (held + safe.away_bytes + safe_counted == 0) { /* nothing was freed since the last sweep */
        atomic_store(&safe.sweeper, 0);
        return false;
    }
    safe.held_bytes = safe.away_bytes = 0;
    bool swept = safe_look(&sweep);
    if (swept) {
        safe.due_bytes = sweep.read_bytes > held ? (sweep.read_bytes - held) / SAFE_SHARE : 0;
        release_small(&sweep);
        release_huge(&sweep);
    } else
        safe_tell();
    atomic_store(&safe.sweeper, 0);
    return swept;
}
