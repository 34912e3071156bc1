/* mimalloc's functions on glebe's heap. This folder, the core and override/ make a library that replaces
 * libmimalloc.so.2 (MIMALLOC_LINE 2) or .so.3 (3), under its soname. Names, parameters and behaviour are those that
 * mimalloc documents. docs/mimalloc.md lists the differences, and test/mimalloc/left_out.txt the functions that are
 * left out, with the reasons.
 *
 *     mi_heap_t    is a glebe_heap. `gb_heap_none` means the main heap: the calling thread's own
 *     line 2       only the thread that made a heap uses it
 *     line 3       any thread may allocate in any heap, so a lock guards each: one of LOCKS, by the heap's number
 *     delete       abandons the heap, like that of a thread that ended: its blocks live on, and other threads use its
 *                  free memory
 *
 * Each allocation goes through `take` or `resize`; mi_malloc, mi_calloc, mi_realloc and mi_free have short cuts.
 * Functions about the process, not about blocks, are in process.c.
 *
 * 1. A block of mi_zalloc and similar functions is zero up to its usable size, so that mi_rezalloc can grow it in
 * place:
 *    take requests as many bytes as the block will have.
 * 2. Blocks start on multiples of 16. If an offset is not a multiple of the alignment, the program's bytes begin inside
 *    the block. The block then starts with a mark, computed from the address handed out:
 *        | mark | ... | the program's bytes |     `whole` finds the start; while no such block exists, it costs one
 *                                                 compare */
#include "mimalloc.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

#include "../../override/new.h"

enum { OFFSET_ALIGNMENT_MAX = 1 << 20 }; /* a huge block is found by an address in its first 4 MiB */
#define MARK ((uintptr_t)0x6d696d616c6c6f63)
#define MAIN (&gb_heap_none)

/* ---- heaps ---- */

enum { LOCKS = 64 };
static gb_lock locks[LOCKS];
static GB_TLS mi_heap_t *chosen; /* by mi_heap_set_default; NULL: the main heap */

static mi_heap_t *heap_now(void)
{
    return chosen ? chosen : MAIN;
}

/* In line 3 NULL is the main heap. */
static bool heap_is_main(const mi_heap_t *heap)
{
    return heap == MAIN || (MIMALLOC_LINE == 3 && !heap);
}

static bool heap_is(const char *call, const mi_heap_t *heap)
{
    bool is = heap == MAIN || heap->kind == GB_HEAP_OWNED;
    if (!is)
        gb_report(call, heap, "not a heap from mi_heap_new, or destroyed already");
    return is;
}

/* The heap to allocate in, locked for this thread until heap_drop. If it is not a heap, reports that and returns
 * NULL. */
static glebe_heap *heap_take(const char *call, mi_heap_t *heap)
{
    if (heap_is_main(heap))
        return gb_self;
    if (!heap_is(call, heap)) {
        errno = EINVAL;
        return NULL;
    }
    if (MIMALLOC_LINE == 3)
        gb_lock_take(&locks[heap->number.n % LOCKS]);
    return heap;
}

static void heap_drop(mi_heap_t *heap)
{
    if (MIMALLOC_LINE == 3 && !heap_is_main(heap))
        gb_lock_drop(&locks[heap->number.n % LOCKS]);
}

/* In the child of a fork the threads that held the locks are gone. */
static void heap_locks_free(void)
{
    memset(locks, 0, sizeof locks);
}

/* Line 2: when a thread ends, its heaps are deleted, as in mimalloc. A heap's field `next`, which otherwise only
 * abandoned heaps use, names its thread. The thread looks for its heaps only if it made more than it ended. */
static pthread_key_t heaps_key;
static bool heaps_key_ready;
static GB_TLS uint32_t heaps_owner, heaps_made; /* 0: the thread made none */

static bool heap_is_mine(const mi_heap_t *heap)
{
    return MIMALLOC_LINE == 2 && heaps_owner && heap->kind == GB_HEAP_OWNED &&
        __atomic_load_n(&heap->next.n, __ATOMIC_RELAXED) == heaps_owner;
}

static mi_heap_t *heap_mine_next(const mi_heap_t *before)
{
    gb_lock_take(&gb_the.lock);
    mi_heap_t *heap = gb_heap_next(before);
    while (heap && !heap_is_mine(heap))
        heap = gb_heap_next(heap);
    gb_lock_drop(&gb_the.lock);
    return heap;
}

static uint32_t heaps_abandoned(void)
{
    return (uint32_t)__atomic_load_n(&glebe_live.stats.heaps_abandoned, __ATOMIC_RELAXED);
}

/* Abandons the heap. Ends empty abandoned heaps when there are SOME more than twice as many as the last look left. */
static void heap_delete(mi_heap_t *heap)
{
    enum { SOME = 16 };
    static _Atomic uint32_t left;
    gb_heap_abandon(heap);
    if (heaps_abandoned() / 2 > gb_load_relaxed(&left) + SOME / 2) {
        gb_abandoned_trim(true);
        gb_store_relaxed(&left, heaps_abandoned());
    }
}

/* Acts in the last round of destructors, since the program's own destructors may use the heaps. */
static void heaps_leave(void *round)
{
    if ((uintptr_t)round < PTHREAD_DESTRUCTOR_ITERATIONS && pthread_setspecific(heaps_key, (char *)round + 1) == 0)
        return;
    chosen = NULL;
    for (mi_heap_t *heap = NULL; heaps_made && (heap = heap_mine_next(heap)); heaps_made--)
        heap_delete(heap);
}

static void heaps_watch(void)
{
    if (MIMALLOC_LINE == 3)
        pthread_atfork(NULL, NULL, heap_locks_free);
    else
        heaps_key_ready = pthread_key_create(&heaps_key, heaps_leave) == 0;
}

EXPORT mi_heap_t *mi_heap_new(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static _Atomic uint32_t owners;
    pthread_once(&once, heaps_watch);
    mi_heap_t *heap = glebe_heap_create(0);
    if (heap && heaps_key_ready) {
        if (!heaps_owner && pthread_setspecific(heaps_key, (void *)1) == 0)
            heaps_owner = ++owners;
        __atomic_store_n(&heap->next.n, heaps_owner, __ATOMIC_RELAXED);
        heaps_made++;
    }
    return heap;
}

EXPORT mi_heap_t *mi_heap_try_new(void)
{
    return mi_heap_new();
}

static bool heap_ends(const char *call, mi_heap_t *heap)
{
    if (!heap || !heap_is(call, heap))
        return false;
    if (heap == MAIN) {
        gb_report(call, heap, "the main heap cannot be given up");
        return false;
    }
    if (chosen == heap)
        chosen = NULL;
    heaps_made -= heap_is_mine(heap);
    return true;
}

EXPORT void mi_heap_delete(mi_heap_t *heap)
{
    if (heap_ends("mi_heap_delete", heap))
        heap_delete(heap);
}

EXPORT void mi_heap_destroy(mi_heap_t *heap)
{
    if (heap_ends("mi_heap_destroy", heap))
        glebe_heap_destroy(heap);
}

/* The heap whose block or page `address` is in, or NULL. */
static glebe_heap *heap_of(const void *address)
{
    gb_extent *extent = gb_extent_of(address);
    if (extent)
        return extent->state == GB_EXTENT_USED && !extent->collected ? gb_heap_at(extent->heap) : NULL;
    const gb_page *page = gb_page_around(address);
    if (!page && (gb_zero_in_use(address) || gb_guard_in_use(address))) /* of no heap */
        return gb_self;
    bool of_blocks = page && (page->kind == GB_SMALL || page->kind == GB_MEDIUM || page->kind == GB_LARGE);
    return of_blocks ? gb_page_heap(page) : NULL;
}

/* In line 2 the main heap is the thread's own, in line 3 that of all threads. It has the blocks of deleted heaps
 * too. */
static bool heap_holds(const mi_heap_t *heap, const void *address)
{
    glebe_heap *owner = heap_of(address);
    if (!heap_is_main(heap) || !owner)
        return owner && owner == heap;
    return owner == gb_self || (MIMALLOC_LINE == 3 ? owner->kind != GB_HEAP_OWNED : owner->kind == GB_HEAP_ABANDONED);
}

EXPORT mi_heap_t *mi_heap_main(void) { return MAIN; }
EXPORT mi_heap_t *mi_heap_get_backing(void) { return MAIN; }
EXPORT mi_heap_t *mi_heap_get_default(void) { return heap_now(); }
EXPORT mi_heap_t *mi_theap_get_default(void) { return heap_now(); }
EXPORT mi_heap_t *mi_heap_theap(mi_heap_t *heap) { return heap; }

EXPORT mi_heap_t *mi_heap_set_default(mi_heap_t *heap)
{
    mi_heap_t *before = heap_now();
    if (heap && heap_is("mi_heap_set_default", heap))
        chosen = heap == MAIN ? NULL : heap;
    return before;
}

EXPORT mi_heap_t *mi_theap_set_default(mi_heap_t *heap) { return mi_heap_set_default(heap); }

EXPORT mi_heap_t *mi_heap_of(const void *address)
{
    glebe_heap *owner = heap_of(address);
    return owner && owner->kind != GB_HEAP_OWNED ? MAIN : owner;
}

EXPORT bool mi_heap_contains(const mi_heap_t *heap, const void *address) { return heap_holds(heap, address); }
EXPORT bool mi_heap_contains_block(mi_heap_t *heap, const void *block) { return heap_holds(heap, block); }
EXPORT bool mi_heap_check_owned(mi_heap_t *heap, const void *address) { return heap_holds(heap, address); }
EXPORT bool mi_check_owned(const void *address) { return heap_holds(heap_now(), address); }
EXPORT bool mi_any_heap_contains(const void *address) { return heap_of(address) != NULL; }
EXPORT bool mi_is_in_heap_region(const void *address) { return heap_of(address) != NULL; }

/* ---- blocks ---- */

static _Atomic bool marks; /* a block with a mark was made */

/* The block that begins with a mark for `p`; else `p`. */
GB_COLD static void *whole_marked(void *p)
{
    uintptr_t at = (uintptr_t)p, start = heap_of(p) ? gb_block_start(p) : 0;
    if (start == 0)
        return p;
    return at - start >= sizeof(uintptr_t) && *(uintptr_t *)start == (at ^ MARK) ? (void *)start : p;
}

GB_INLINE void *whole(void *p)
{
    return GB_UNLIKELY(gb_load_relaxed(&marks)) ? whole_marked(p) : p;
}

GB_NOINLINE static size_t usable(const char *call, const void *p)
{
    const void *start = whole((void *)(uintptr_t)p);
    size_t bytes = p ? gb_block_bytes(call, start) : 0;
    return bytes ? bytes - (size_t)((uintptr_t)p - (uintptr_t)start) : 0;
}

GB_COLD static void release_marked(const char *call, void *p)
{
    void *start = whole_marked(p);
    if (start != p)
        *(uintptr_t *)start = 0;
    gb_free(call, gb_self, start);
}

GB_INLINE void release(const char *call, void *p)
{
    if (GB_UNLIKELY(gb_load_relaxed(&marks)))
        release_marked(call, p);
    else
        gb_free(call, gb_self, p);
}

/* The usable size of a block of so many bytes. */
static size_t good(size_t bytes)
{
    if (bytes <= GB_MEDIUM_MAX)
        return gb_classes[gb_class_of(bytes)].bytes;
    return bytes > GB_MAX_BYTES
        ? bytes
        : gb_round_up(bytes, bytes <= GB_LARGE_MAX ? GB_SLICE_BYTES : (size_t)gb_port_page_bytes());
}

static size_t product(size_t count, size_t bytes)
{
    size_t total;
    return __builtin_mul_overflow(count, bytes, &total) ? SIZE_MAX : total; /* more than any heap has */
}

/* A block with a mark, in which the program's bytes begin at `pad`. */
static void *take_marked(glebe_heap *heap, size_t bytes, size_t alignment, size_t pad)
{
    while (pad < sizeof(uintptr_t))
        pad += alignment;
    size_t total;
    if (alignment > OFFSET_ALIGNMENT_MAX) {
        errno = EINVAL;
        return NULL;
    }
    if (__builtin_add_overflow(bytes, pad, &total))
        return gb_out_of_memory();
    gb_store_relaxed(&marks, true);
    char *start = gb_alloc_aligned(heap, alignment, total);
    if (!start)
        return NULL;
    *(uintptr_t *)start = ((uintptr_t)start + pad) ^ MARK;
    return start + pad;
}

/* `bytes` bytes, of which the byte at `offset` is on a multiple of `alignment`. */
GB_NOINLINE static void *take(
    const char *call, mi_heap_t *owner, size_t bytes, size_t alignment, size_t offset, bool zero)
{
    if (!gb_is_pow2(alignment)) {
        errno = EINVAL;
        return NULL;
    }
    glebe_heap *heap = heap_take(call, owner);
    if (!heap)
        return NULL;
    size_t pad = -offset & (alignment - 1);
    bool clear = zero;
    void *block;
    if (pad)
        block = take_marked(heap, bytes, alignment, pad);
    else if (alignment > 16)
        block = gb_alloc_aligned(heap, alignment, bytes);
    else {
        block = zero && bytes ? gb_calloc(heap, 1, good(bytes)) : gb_alloc(heap, bytes);
        clear = false;
    }
    heap_drop(owner);
    return block && clear ? memset(block, 0, usable(call, block)) : block;
}

/* A request without a special alignment goes to glebe's own realloc. Otherwise the block stays if it has the alignment
 * and is at most twice as large as needed. 0 bytes are a size like any other: as in mimalloc, nothing is freed. `zero`
 * clears the block beyond the bytes it keeps: in a block that shrinks, the program's old bytes are there, and a later
 * call may grow over them. */
GB_NOINLINE static void *resize(
    const char *call, mi_heap_t *owner, void *p, size_t bytes, size_t alignment, size_t offset, bool zero)
{
    if (!p)
        return take(call, owner, bytes, alignment, offset, zero);
    size_t before = usable(call, p);
    if ((before == 0 && !gb_zero_in_use(p)) || !gb_is_pow2(alignment)) {
        errno = EINVAL;
        return NULL;
    }
    void *fresh;
    if (alignment <= 16 && (offset & (alignment - 1)) == 0 && whole(p) == p) {
        glebe_heap *heap = heap_take(call, owner);
        if (!heap)
            return NULL;
        fresh = gb_realloc(call, heap, p, zero ? good(bytes) : bytes ? bytes : 1);
        heap_drop(owner);
    } else if (bytes <= before && bytes >= before / 2 && (((uintptr_t)p + offset) & (alignment - 1)) == 0)
        fresh = p;
    else {
        fresh = take(call, owner, bytes, alignment, offset, false);
        if (fresh) {
            memcpy(fresh, p, bytes < before ? bytes : before);
            release(call, p);
        }
    }
    size_t kept = bytes < before ? bytes : before, after = fresh && zero ? usable(call, fresh) : 0;
    if (after > kept)
        memset((char *)fresh + kept, 0, after - kept);
    return fresh;
}

/* If the block cannot be resized, it is freed. */
static void *resize_or_free(const char *call, mi_heap_t *owner, void *p, size_t bytes)
{
    void *fresh = resize(call, owner, p, bytes, 1, 0, false);
    if (!fresh && p)
        release(call, p);
    return fresh;
}

static char *copy(const char *call, mi_heap_t *owner, const char *string, size_t most)
{
    if (!string)
        return NULL;
    size_t length = strnlen(string, most);
    char *fresh = take(call, owner, length + 1, 1, 0, false);
    if (fresh) {
        memcpy(fresh, string, length);
        fresh[length] = 0;
    }
    return fresh;
}

static char *resolve(const char *call, mi_heap_t *owner, const char *name, char *out)
{
    char path[PATH_MAX];
    return out ? realpath(name, out) : copy(call, owner, realpath(name, path), PATH_MAX);
}

/* ---- short cuts ---- */

GB_INLINE void *take_now(const char *call, size_t bytes)
{
    return GB_UNLIKELY(chosen) ? take(call, chosen, bytes, 1, 0, false) : gb_alloc_own(bytes);
}

GB_INLINE void *zero_now(const char *call, size_t bytes)
{
    return GB_UNLIKELY(chosen) ? take(call, chosen, bytes, 1, 0, true) : gb_calloc_own(1, good(bytes));
}

EXPORT void *mi_malloc(size_t n) { return take_now(__func__, n); }
EXPORT void *mi_malloc_small(size_t n) { return take_now(__func__, n); }
EXPORT void *mi_mallocn(size_t count, size_t n) { return take_now(__func__, product(count, n)); }
EXPORT void *mi_zalloc(size_t n) { return zero_now(__func__, n); }
EXPORT void *mi_zalloc_small(size_t n) { return zero_now(__func__, n); }
EXPORT void *mi_calloc(size_t count, size_t n) { return zero_now(__func__, product(count, n)); }
EXPORT void mi_free(void *p) { release(__func__, p); }
EXPORT void mi_free_small(void *p) { release(__func__, p); }

EXPORT void *mi_realloc(void *p, size_t n)
{
    if (GB_UNLIKELY(chosen || gb_load_relaxed(&marks)))
        return resize(__func__, heap_now(), p, n, 1, 0, false);
    return p ? gb_realloc(__func__, gb_self, p, n ? n : 1) : gb_alloc_own(n);
}

#define HEAPS(type, name, value, ...) \
    EXPORT type mi_heap_##name(mi_heap_t *heap, __VA_ARGS__) { return value; }
#define THEAPS(type, name, value, ...) \
    HEAPS(type, name, value, __VA_ARGS__) \
    EXPORT type mi_theap_##name(mi_heap_t *heap, __VA_ARGS__) { return value; }
#define BOTH(type, name, value, ...) \
    HEAPS(type, name, value, __VA_ARGS__) \
    EXPORT type mi_##name(__VA_ARGS__) \
    { \
        mi_heap_t *heap = heap_now(); \
        return value; \
    }
#define TAKE(bytes, alignment, offset, zero) take(__func__, heap, bytes, alignment, offset, zero)
#define RESIZE(bytes, alignment, offset, zero) resize(__func__, heap, p, bytes, alignment, offset, zero)

THEAPS(void *, malloc, TAKE(n, 1, 0, false), size_t n)
THEAPS(void *, malloc_small, TAKE(n, 1, 0, false), size_t n)
THEAPS(void *, zalloc, TAKE(n, 1, 0, true), size_t n)
THEAPS(void *, zalloc_small, TAKE(n, 1, 0, true), size_t n)
THEAPS(void *, calloc, TAKE(product(count, n), 1, 0, true), size_t count, size_t n)
THEAPS(void *, realloc, RESIZE(n, 1, 0, false), void *p, size_t n)
HEAPS(void *, mallocn, TAKE(product(count, n), 1, 0, false), size_t count, size_t n)

/* ---- aligned blocks ---- */

EXPORT void *mi_theap_malloc_aligned(mi_heap_t *heap, size_t n, size_t a) { return TAKE(n, a, 0, false); }
BOTH(void *, malloc_aligned, TAKE(n, a, 0, false), size_t n, size_t a)
BOTH(void *, malloc_aligned_at, TAKE(n, a, offset, false), size_t n, size_t a, size_t offset)
BOTH(void *, zalloc_aligned, TAKE(n, a, 0, true), size_t n, size_t a)
BOTH(void *, zalloc_aligned_at, TAKE(n, a, offset, true), size_t n, size_t a, size_t offset)
BOTH(void *, calloc_aligned, TAKE(product(count, n), a, 0, true), size_t count, size_t n, size_t a)
BOTH(void *, calloc_aligned_at, TAKE(product(count, n), a, offset, true), size_t count, size_t n, size_t a,
    size_t offset)

EXPORT void *mi_aligned_alloc(size_t a, size_t n) { return take(__func__, heap_now(), n, a, 0, false); }
EXPORT void *mi_memalign(size_t a, size_t n) { return take(__func__, heap_now(), n, a, 0, false); }
EXPORT void *mi_valloc(size_t n) { return take(__func__, heap_now(), n, gb_port_page_bytes(), 0, false); }

EXPORT void *mi_pvalloc(size_t n)
{
    size_t page = gb_port_page_bytes();
    return take(__func__, heap_now(), n > GB_MAX_BYTES ? n : gb_round_up(n, page), page, 0, false);
}

EXPORT int mi_posix_memalign(void **out, size_t a, size_t n)
{
    if (!out || !gb_is_pow2(a) || a % sizeof(void *) != 0)
        return EINVAL;
    int saved = errno;
    void *block = take(__func__, heap_now(), n, a, 0, false);
    errno = saved;
    if (!block)
        return ENOMEM;
    *out = block;
    return 0;
}

/* ---- resizing ---- */

BOTH(void *, reallocn, RESIZE(product(count, n), 1, 0, false), void *p, size_t count, size_t n)
BOTH(void *, reallocf, resize_or_free(__func__, heap, p, n), void *p, size_t n)
BOTH(void *, rezalloc, RESIZE(n, 1, 0, true), void *p, size_t n)
BOTH(void *, recalloc, RESIZE(product(count, n), 1, 0, true), void *p, size_t count, size_t n)
BOTH(void *, realloc_aligned, RESIZE(n, a, 0, false), void *p, size_t n, size_t a)
BOTH(void *, realloc_aligned_at, RESIZE(n, a, offset, false), void *p, size_t n, size_t a, size_t offset)
BOTH(void *, rezalloc_aligned, RESIZE(n, a, 0, true), void *p, size_t n, size_t a)
BOTH(void *, rezalloc_aligned_at, RESIZE(n, a, offset, true), void *p, size_t n, size_t a, size_t offset)
BOTH(void *, recalloc_aligned, RESIZE(product(count, n), a, 0, true), void *p, size_t count, size_t n, size_t a)
BOTH(void *, recalloc_aligned_at, RESIZE(product(count, n), a, offset, true), void *p, size_t count, size_t n, size_t a,
    size_t offset)

EXPORT void *mi_aligned_recalloc(void *p, size_t count, size_t n, size_t a)
{
    return resize(__func__, heap_now(), p, product(count, n), a, 0, true);
}

EXPORT void *mi_aligned_offset_recalloc(void *p, size_t count, size_t n, size_t a, size_t offset)
{
    return resize(__func__, heap_now(), p, product(count, n), a, offset, true);
}

/* As on the BSDs, a product that overflows sets EOVERFLOW. */
static void *resize_array(const char *call, void *p, size_t count, size_t n)
{
    size_t total;
    if (!__builtin_mul_overflow(count, n, &total))
        return resize(call, heap_now(), p, total, 1, 0, false);
    errno = EOVERFLOW;
    return NULL;
}

EXPORT void *mi_reallocarray(void *p, size_t count, size_t n) { return resize_array(__func__, p, count, n); }

EXPORT int mi_reallocarr(void *out, size_t count, size_t n)
{
    void *p, *fresh;
    if (!out)
        return errno = EINVAL;
    memcpy(&p, out, sizeof p);
    fresh = resize_array(__func__, p, count, n);
    if (!fresh)
        return errno;
    memcpy(out, &fresh, sizeof fresh);
    return 0;
}

EXPORT void *mi_expand(void *p, size_t n) { return p && n <= usable(__func__, p) ? p : NULL; }
EXPORT void *mi__expand(void *p, size_t n)
{
    void *same = p && n <= usable(__func__, p) ? p : NULL;
    if (!same)
        errno = ENOMEM;
    return same;
}

/* ---- strings ---- */

BOTH(char *, strdup, copy(__func__, heap, s, SIZE_MAX), const char *s)
BOTH(char *, strndup, copy(__func__, heap, s, n), const char *s, size_t n)
BOTH(char *, realpath, resolve(__func__, heap, name, out), const char *name, char *out)
EXPORT unsigned char *mi_mbsdup(const unsigned char *s)
{
    return (unsigned char *)copy(__func__, heap_now(), (const char *)s, SIZE_MAX);
}

EXPORT int mi_dupenv_s(char **out, size_t *bytes, const char *name)
{
    if (!out || !name)
        return EINVAL;
    char *value = getenv(name);
    *out = copy(__func__, heap_now(), value, SIZE_MAX);
    if (value && !*out)
        return ENOMEM;
    if (bytes)
        *bytes = value ? strlen(value) + 1 : 0;
    return 0;
}

/* ---- sizes, and frees with a size ---- */

EXPORT size_t mi_usable_size(const void *p) { return usable(__func__, p); }
EXPORT size_t mi_malloc_size(const void *p) { return usable(__func__, p); }
EXPORT size_t mi_malloc_usable_size(const void *p) { return usable(__func__, p); }
EXPORT size_t mi_good_size(size_t n) { return good(n); }
EXPORT size_t mi_malloc_good_size(size_t n) { return good(n); }

static void release_sized(const char *call, void *p, size_t bytes, size_t alignment)
{
    if (!p)
        return;
    size_t has = usable(call, p);
    if (has == 0)
        return; /* usable() has reported it */
    if (bytes > has)
        gb_report(call, p, "size %zu is wrong: the block has %zu bytes", bytes, has);
    else if (gb_alignment_fits(call, p, alignment))
        release(call, p);
}

EXPORT void mi_free_size(void *p, size_t n) { release_sized(__func__, p, n, 1); }
EXPORT void mi_free_size_aligned(void *p, size_t n, size_t a) { release_sized(__func__, p, n, a); }
EXPORT void mi_free_aligned(void *p, size_t a) { release_sized(__func__, p, 0, a); }

EXPORT void mi_cfree(void *p)
{
    if (heap_of(p))
        release(__func__, p);
}

static void *sized(void *p, size_t *out)
{
    if (p && out)
        *out = usable("mi_umalloc", p);
    return p;
}

EXPORT void *mi_umalloc(size_t n, size_t *has) { return sized(take_now(__func__, n), has); }
EXPORT void *mi_umalloc_small(size_t n, size_t *has) { return sized(take_now(__func__, n), has); }
EXPORT void *mi_uzalloc_small(size_t n, size_t *has) { return sized(zero_now(__func__, n), has); }
EXPORT void *mi_ucalloc(size_t count, size_t n, size_t *has)
{
    return sized(zero_now(__func__, product(count, n)), has);
}
EXPORT void *mi_umalloc_aligned(size_t n, size_t a, size_t *has)
{
    return sized(take(__func__, heap_now(), n, a, 0, false), has);
}
EXPORT void *mi_uzalloc_aligned(size_t n, size_t a, size_t *has)
{
    return sized(take(__func__, heap_now(), n, a, 0, true), has);
}

EXPORT void *mi_urealloc(void *p, size_t n, size_t *had, size_t *has)
{
    size_t before = usable(__func__, p);
    void *fresh = sized(resize(__func__, heap_now(), p, n, 1, 0, false), has);
    if (fresh && had)
        *had = before;
    return fresh;
}

EXPORT void mi_ufree(void *p, size_t *had)
{
    if (had)
        *had = usable(__func__, p);
    release(__func__, p);
}

/* ---- C++: without memory, call the new_handler, then throw std::bad_alloc ---- */

#define CALLER __builtin_return_address(0)

/* override_new_retry returns a block once the handler has freed enough memory. That block is freed, so that `again`
 * gets its memory. Misuse was reported and is not tried again. */
#define UNTIL_SERVED(n, again) \
    void *block; \
    while (GB_UNLIKELY(!(block = (again)) && errno == ENOMEM)) \
        gb_free(__func__, gb_self, override_new_retry(0, n, CALLER)); \
    return block

EXPORT void *mi_new(size_t n) { UNTIL_SERVED(n, take_now(__func__, n)); }
EXPORT void *mi_new_n(size_t count, size_t n)
{
    UNTIL_SERVED(product(count, n), take_now(__func__, product(count, n)));
}
EXPORT void *mi_new_aligned(size_t n, size_t a) { UNTIL_SERVED(n, take(__func__, heap_now(), n, a, 0, false)); }
EXPORT void *mi_new_realloc(void *p, size_t n) { UNTIL_SERVED(n, resize(__func__, heap_now(), p, n, 1, 0, false)); }
EXPORT void *mi_new_reallocn(void *p, size_t count, size_t n)
{
    UNTIL_SERVED(product(count, n), resize(__func__, heap_now(), p, product(count, n), 1, 0, false));
}
EXPORT void *mi_heap_alloc_new(mi_heap_t *heap, size_t n) { UNTIL_SERVED(n, TAKE(n, 1, 0, false)); }
EXPORT void *mi_heap_alloc_new_n(mi_heap_t *heap, size_t count, size_t n)
{
    UNTIL_SERVED(product(count, n), TAKE(product(count, n), 1, 0, false));
}

EXPORT void *mi_new_nothrow(size_t n)
{
    static const char tag;
    void *block = take_now(__func__, n);
    return block ? block : override_nothrow_retry(0, n, &tag, CALLER, "_Znw" NEW_SIZE "RKSt9nothrow_t", NULL);
}

EXPORT void *mi_new_aligned_nothrow(size_t n, size_t a)
{
    static const char tag;
    void *block = take(__func__, heap_now(), n, a, 0, false);
    return block ? block
                 : override_nothrow_retry(a, n, &tag, CALLER, "_Znw" NEW_SIZE "St11align_val_tRKSt9nothrow_t", NULL);
}

/* ---- collecting ---- */

typedef void deferred_free(bool force, unsigned long long heartbeat, void *context);
static deferred_free *deferred;
static void *deferred_context;

/* Called before any lock is taken: the program's function may allocate and collect. It is not called recursively. */
static void free_deferred(bool force)
{
    static _Atomic unsigned long long heartbeat;
    static GB_TLS bool inside;
    if (!deferred || inside)
        return;
    inside = true;
    deferred(force, ++heartbeat, deferred_context);
    inside = false;
}

EXPORT void mi_collect(bool force)
{
    free_deferred(force);
    glebe_trim(NULL);
}

EXPORT void mi_collect_reduce(size_t target)
{
    (void)target;
    glebe_trim(NULL);
}

EXPORT void mi_heap_collect(mi_heap_t *heap, bool force)
{
    free_deferred(force);
    glebe_heap *own = heap_take(__func__, heap);
    if (own) {
        glebe_trim(own);
        heap_drop(heap);
    }
}

EXPORT void mi_theap_collect(mi_heap_t *heap, bool force) { mi_heap_collect(heap, force); }

EXPORT void mi_register_deferred_free(deferred_free *function, void *context)
{
    deferred_context = context;
    deferred = function;
}
