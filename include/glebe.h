/* glebe: a general-purpose malloc with first-class heaps.       MIT OR Apache-2.0
 *
 * Sizes and limits are bytes, times are milliseconds, addresses are pointers. A function that allocates returns NULL
 * and sets errno if it fails: ENOMEM, or EINVAL for a wrong alignment. A function that returns int returns 0 or an
 * errno value, unless its comment says otherwise. Memory is aligned to at least 16 bytes; glebe_heap_realloc_sized is
 * the exception. No function throws. Any thread may call any function, unless the comment names an owner. A signal
 * handler may call only glebe_usable_size and glebe_version: see docs/contracts.md.
 */
#ifndef GLEBE_H
#define GLEBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GLEBE_VERSION_MAJOR 0
#define GLEBE_VERSION_MINOR 1
#define GLEBE_VERSION_PATCH 0
#define GLEBE_VERSION (GLEBE_VERSION_MAJOR * 10000 + GLEBE_VERSION_MINOR * 100 + GLEBE_VERSION_PATCH)

/* A program that includes the source, and does not want to export these functions, defines GLEBE_API. */
#if !defined(GLEBE_API) && defined(__GNUC__)
#define GLEBE_API __attribute__((visibility("default")))
#elif !defined(GLEBE_API)
#define GLEBE_API
#endif
#if defined(__GNUC__)
#define GLEBE_ALLOC(...) __attribute__((malloc, warn_unused_result, alloc_size(__VA_ARGS__)))
#else
#define GLEBE_ALLOC(...)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the version of the linked library, in the form of GLEBE_VERSION (100 is 0.1.0). */
GLEBE_API int glebe_version(void);

/* ---- The malloc family ------------------------------------------------------------------------------------------- */

/* Each function does what the C or POSIX function of that name does, on the calling thread's heap. Any thread may
 * free the blocks. With the override linked or preloaded, `malloc` IS `glebe_malloc`, and blocks of the two mix
 * freely. */

/* Returns at least `bytes` bytes, not cleared. `bytes` 0 gives a unique pointer that must be freed. Where
 * memory can be protected, nobody can read or write there, and glebe_usable_size of it is 0. */
GLEBE_API void *glebe_malloc(size_t bytes) GLEBE_ALLOC(1);
/* Returns `count * bytes` bytes, all zero; NULL and ENOMEM if the product overflows. Memory known to be zero is not
 * cleared again. */
GLEBE_API void *glebe_calloc(size_t count, size_t bytes) GLEBE_ALLOC(1, 2);
/* Resizes `block` (NULL allocates), in place if possible. On failure `block` is unchanged. `bytes` 0 frees the block
 * and returns NULL, as glibc does. */
GLEBE_API void *glebe_realloc(void *block, size_t bytes);
/* glebe_realloc of `count * bytes`. If the product overflows it returns NULL and ENOMEM, and `block` is unchanged. */
GLEBE_API void *glebe_reallocarray(void *block, size_t count, size_t bytes);
/* Frees `block`; NULL does nothing. Preserves errno. */
GLEBE_API void glebe_free(void *block);
/* C23: glebe_free, where `bytes` is the requested size. Reports a size that the block cannot hold. */
GLEBE_API void glebe_free_sized(void *block, size_t bytes);
/* C23: glebe_free_sized for a block from glebe_aligned_alloc(alignment, bytes). */
GLEBE_API void glebe_free_aligned_sized(void *block, size_t alignment, size_t bytes);
/* `alignment` must be a power of two; otherwise returns NULL and EINVAL. `bytes` need not be a multiple of it. */
GLEBE_API void *glebe_aligned_alloc(size_t alignment, size_t bytes) GLEBE_ALLOC(2);
/* Returns 0, ENOMEM, or EINVAL if `alignment` is not a power of two and a multiple of sizeof(void *). Sets *out on
 * success only. */
GLEBE_API int glebe_posix_memalign(void **out, size_t alignment, size_t bytes);
/* Like glebe_aligned_alloc. Rounds an alignment that is not a power of two up to one, as glibc does. */
GLEBE_API void *glebe_memalign(size_t alignment, size_t bytes) GLEBE_ALLOC(2);
/* Returns memory aligned to an OS page; glebe_pvalloc also rounds the size up to whole OS pages. */
GLEBE_API void *glebe_valloc(size_t bytes) GLEBE_ALLOC(1);
GLEBE_API void *glebe_pvalloc(size_t bytes) GLEBE_ALLOC(1);
/* Returns the usable bytes of `block`: at least the requested size; 0 for NULL. */
GLEBE_API size_t glebe_usable_size(const void *block);
/* Returns a copy of a string in a new block. glebe_strndup copies at most `bytes` bytes and appends a NUL. */
GLEBE_API char *glebe_strdup(const char *string);
GLEBE_API char *glebe_strndup(const char *string, size_t bytes);

/* ---- Heaps ------------------------------------------------------------------------------------------------------- */

/* A heap owns its memory. A program can limit it, measure it, and destroy it at once with all its blocks. Only one
 * thread at a time may allocate in a heap or call the functions below on it; the thread may change, if the caller
 * orders the calls. Any thread may free its blocks at any time by `free` or glebe_free. NULL as `heap` means the
 * calling thread's own heap, unless the function's comment says otherwise. */
typedef struct glebe_heap glebe_heap;

/* Returns a new heap, or NULL and ENOMEM. `limit_bytes` bounds the pages and blocks that the heap holds (counted in
 * slices of 16 KiB); 0 is no limit. Allocation beyond it returns NULL and ENOMEM. */
GLEBE_API glebe_heap *glebe_heap_create(size_t limit_bytes);
/* Frees the heap and all its blocks. Frees of its blocks by other threads must have returned. NULL does nothing. */
GLEBE_API void glebe_heap_destroy(glebe_heap *heap);
/* Changes the limit. Returns EBUSY, and changes nothing, if the heap already holds more. Returns ENOMEM if the
 * calling thread has no heap yet and cannot get one. */
GLEBE_API int glebe_heap_limit(glebe_heap *heap, size_t limit_bytes);
/* Returns the bytes of address space that the heap holds in pages, large and huge blocks: the bytes that its limit
 * bounds. */
GLEBE_API size_t glebe_heap_bytes(const glebe_heap *heap);

/* The same as glebe_malloc, glebe_calloc and glebe_aligned_alloc, in this heap. */
GLEBE_API void *glebe_heap_malloc(glebe_heap *heap, size_t bytes) GLEBE_ALLOC(2);
GLEBE_API void *glebe_heap_calloc(glebe_heap *heap, size_t count, size_t bytes) GLEBE_ALLOC(2, 3);
GLEBE_API void *glebe_heap_aligned_alloc(glebe_heap *heap, size_t alignment, size_t bytes) GLEBE_ALLOC(3);
/* Like glebe_realloc. `block` must be of this heap. A block of glebe_heap_realloc_sized may stay in place, on a
 * multiple of 8. */
GLEBE_API void *glebe_heap_realloc(glebe_heap *heap, void *block, size_t bytes);
/* `old_bytes` is the size of the last request: small blocks are resized without a look-up. Shrinking never fails.
 * `block` NULL allocates, and `bytes` 0 frees and returns NULL, for any `old_bytes`: this is Lua's lua_Alloc. Blocks
 * that this function allocates or moves may have an alignment of only 8. This holds for blocks of 17 to 24, 33 to 40
 * and 49 to 56 bytes; glebe_heap_malloc aligns them to 16. */
GLEBE_API void *glebe_heap_realloc_sized(glebe_heap *heap, void *block, size_t old_bytes, size_t bytes);
/* `block` must be of this heap. */
GLEBE_API void glebe_heap_free(glebe_heap *heap, void *block);
/* Like glebe_heap_free. `bytes` is the size of the last request. */
GLEBE_API void glebe_heap_free_sized(glebe_heap *heap, void *block, size_t bytes);
/* Returns whether `block` is of this heap. `block` must be in use, and may be of any allocator. Costs as little as a
 * free. */
GLEBE_API bool glebe_heap_owns(const glebe_heap *heap, const void *block);

/* ---- Pools ------------------------------------------------------------------------------------------------------- */

/* A pool is an array of units that grows up to a limit. It holds objects of 1 to `most_units` units: of one size, or
 * of a family of sizes in one space of indices. Each size has a list of free objects. docs/pools.md shows both.
 *
 *     index    1     2     3     4     5     6     7     8             a pointer and an index name the same object,
 *           |  2 units  |  1  |     3 units     |  2 units  | ...      and both stay valid; index 0 is none
 *
 * An object is aligned to the largest power of two in `unit_bytes`, up to 16. A freed object serves requests of its
 * size; it serves other sizes only if there is no more memory. Only one thread at a time may use a pool and call the
 * functions below on it. It must be a thread that may use the pool's heap. */
typedef struct glebe_pool {
    /* read by the functions below only; the lists of free objects, by units, follow in memory */
    uintptr_t base; /* object i is at base + i * unit_bytes */
    /* the range of the objects; 0 bytes in the audit build, where each call goes to the library */
    uintptr_t first, bytes;
    uint32_t unit_bytes, inverse, shift; /* unit_bytes is odd << shift, and odd * inverse is 1 */
    uint32_t most_units;
} glebe_pool;
typedef void *glebe_pool_link
#if defined(__GNUC__)
    __attribute__((may_alias))
#endif
    ;

/* Returns a new pool, or NULL and ENOMEM; or NULL and EINVAL for a wrong argument. `unit_bytes` must be a multiple
 * of sizeof(void *), at most 4096. `most_units` is 1 to 1024. `limit_bytes` is at least the largest object and at
 * most 2^32 - 2 units.
 *
 * The memory comes from `heap`, a heap of glebe_heap_create, and counts against that heap's limit. If `heap` is
 * NULL, the pool gets a heap of its own. The pool grows by `step_bytes` (0 is 64 KiB) up to `limit_bytes`. With
 * 64-bit pointers it reserves address space up to the limit at once, and indices count units from 1. With 32-bit
 * pointers it consists of pieces, and an index is an address divided by the unit, below 2^32 / unit_bytes. */
GLEBE_API glebe_pool *glebe_pool_create(
    glebe_heap *heap, size_t unit_bytes, size_t most_units, size_t limit_bytes, size_t step_bytes);
/* Frees the pool and all its objects; glebe_heap_destroy of its heap does the same. NULL does nothing. */
GLEBE_API void glebe_pool_destroy(glebe_pool *pool);
/* Frees all objects at once. With `give_back` the pool returns its memory except the first step; otherwise it
 * retains all of it. */
GLEBE_API void glebe_pool_reset(glebe_pool *pool, bool give_back);

/* Slow paths of the two functions below. */
GLEBE_API void *glebe_pool_alloc_slow(glebe_pool *pool, size_t units);
GLEBE_API void glebe_pool_free_slow(glebe_pool *pool, void *object, size_t units);

/* Returns an object of `units` units, not cleared; NULL and ENOMEM at the limit. `units` must be 1 to most_units. */
static inline void *glebe_pool_alloc(glebe_pool *pool, size_t units)
{
    void **list = (void **)(pool + 1) + units, *object = *list;
    if (!object)
        return glebe_pool_alloc_slow(pool, units);
    *list = *(glebe_pool_link *)object;
    return object;
}

/* Frees an object. `units` must be the requested number. Reports an address outside the pool; NULL does nothing. */
static inline void glebe_pool_free(glebe_pool *pool, void *object, size_t units)
{
    void **list = (void **)(pool + 1) + units;
    if ((uintptr_t)object - pool->first >= pool->bytes) {
        glebe_pool_free_slow(pool, object, units);
        return;
    }
    *(glebe_pool_link *)object = *list;
    *list = object;
}

/* Convert an index to its object, and back. They do not check the argument. */
static inline void *glebe_pool_at(const glebe_pool *pool, uint32_t index)
{
    return (void *)(pool->base + (uintptr_t)index * pool->unit_bytes);
}
static inline uint32_t glebe_pool_index(const glebe_pool *pool, const void *object)
{
    return (uint32_t)(((uintptr_t)object - pool->base) >> pool->shift) * pool->inverse;
}

typedef struct glebe_pool_stats {
    uint64_t limit_bytes;
    uint64_t held_bytes; /* memory that the pool holds from its heap */
    uint64_t used_bytes; /* in objects in use */
    uint64_t free_bytes; /* in free objects; the rest of held_bytes was not handed out yet */
    uint64_t free_objects;
} glebe_pool_stats;
/* Reads the statistics. Walks the free lists. */
GLEBE_API void glebe_pool_stats_read(const glebe_pool *pool, glebe_pool_stats *out);

/* ---- Collection -------------------------------------------------------------------------------------------------- */

/* A collector owns objects that the program does not free. It finds the objects that its roots do not reach, and
 * reuses their memory. Only one thread at a time may use a collector. While it collects, all threads of the program
 * that hold references to its objects must be at rest.
 *
 * A word is a reference if it holds an address anywhere inside an object. The collector looks at
 *     - memory that glebe_gc_root_add named,
 *     - memory that the marker names in each collection (glebe_gc_on_mark), such as the stack,
 *     - in reachable objects, the words that their layout names,
 * and at nothing else: not at static variables that no root names, blocks of malloc, or local variables.
 *
 * WARNING. If only a local variable refers to an object, the next collection frees it, and every allocation may
 * collect. Add roots, or have a marker call glebe_gc_mark_stack: docs/collector.md has a program of each kind. */
typedef struct glebe_gc glebe_gc;

/* Returns a new collector, or NULL and ENOMEM. `limit_bytes` bounds the pages of its objects and its own tables; 0
 * is no limit. A limit that leaves no room for objects is refused (128 KiB is always enough). Collectors are
 * independent: different threads may use them at the same time, and the address of another collector's object is no
 * reference. The collector created first marks some 10 % faster than later ones. */
GLEBE_API glebe_gc *glebe_gc_create(size_t limit_bytes);
/* Frees the collector and all its objects. No finalizer runs; memory of roots and weak references is not read. A
 * collector's own marker, listener or finalizer must not destroy it; in a marker or listener the call is reported.
 * NULL does nothing. */
GLEBE_API void glebe_gc_destroy(glebe_gc *gc);

/* Return an object of `bytes` bytes, all zero, aligned to 16 (to 8 if pointers have 4 bytes and `bytes` is not a
 * multiple of 16). They return NULL and ENOMEM if even a collection makes no room. Any of them may collect first:
 * that frees every object that is not reachable then, including other new objects of the caller.
 *     glebe_gc_alloc           every aligned word may be a reference
 *     glebe_gc_alloc_plain     no word is a reference
 *     glebe_gc_alloc_layout    `layout` says which words may be references. It is GLEBE_GC_LAYOUT(words, mask), or the
 *                              address of a glebe_gc_layout, which must last as long as the collector. Either
 *                              describes an element that repeats to the object's end; bit i of the mask is word i.
 *                              With a layout of 0 words every word may be a reference.
 *                              GLEBE_GC_LAYOUT describes up to 63 words, the first 57 of which may be references (31
 *                              and 26 if pointers have 4 bytes). Beyond that every word may be a reference */
GLEBE_API void *glebe_gc_alloc(glebe_gc *gc, size_t bytes) GLEBE_ALLOC(2);
GLEBE_API void *glebe_gc_alloc_plain(glebe_gc *gc, size_t bytes) GLEBE_ALLOC(2);
GLEBE_API void *glebe_gc_alloc_layout(glebe_gc *gc, size_t bytes, uintptr_t layout) GLEBE_ALLOC(2);
#define GLEBE_GC_LAYOUT_BITS (4 + sizeof(uintptr_t) / 4) /* bits of the count of words */
#define GLEBE_GC_MASK_BITS (8 * sizeof(uintptr_t) - 1 - GLEBE_GC_LAYOUT_BITS)
#define GLEBE_GC_LAYOUT(words, mask) \
    ((uint64_t)(words) >> GLEBE_GC_LAYOUT_BITS || (uint64_t)(mask) >> GLEBE_GC_MASK_BITS \
            ? (uintptr_t)0 \
            : (uintptr_t)1 | (uintptr_t)(words) << 1 | (uintptr_t)(mask) << (1 + GLEBE_GC_LAYOUT_BITS))
typedef struct glebe_gc_layout {
    uintptr_t words; /* words of an element, which may be longer than the object */
    /* as long as the element, or the longest object, needs; word i may be a reference if bits[i / 8] >> i % 8 & 1 */
    uint8_t bits[1];
} glebe_gc_layout;
/* Frees an object at once, for a caller that knows that nothing refers to it. Reports an `object` that is not the
 * start of an object. The finalizer of the object will not run. Weak references to it become NULL and are removed:
 * for this the call walks all weak references. NULL does nothing. */
GLEBE_API void glebe_gc_free(glebe_gc *gc, void *object);
/* Returns the usable bytes of the object that `object` is or points into; 0 if there is none. */
GLEBE_API size_t glebe_gc_usable_size(const glebe_gc *gc, const void *object);

/* Roots: memory whose words are references. The memory must last until the root is removed. Return 0, ENOMEM, EINVAL
 * if the range passes the end of memory, or ENOENT if no range starts there. Ranges may overlap. A range is removed
 * by its start. Ranges with the same start must each be removed; until the last one is removed, the longest of them
 * counts. A root added while a collection marks counts in that collection. */
GLEBE_API int glebe_gc_root_add(glebe_gc *gc, const void *start, size_t bytes);
GLEBE_API int glebe_gc_root_remove(glebe_gc *gc, const void *start);
/* A marker is called in each collection, by the thread that allocates or collects. It names further roots by
 * glebe_gc_mark and glebe_gc_mark_stack. It must return. The rules at glebe_gc_begin apply to it. */
typedef void glebe_gc_marker(void *context, glebe_gc *gc);
GLEBE_API void glebe_gc_on_mark(glebe_gc *gc, glebe_gc_marker *marker, void *context);
/* Marks the words in [start, end) as references. Only in a glebe_gc_marker, or between glebe_gc_begin and
 * glebe_gc_finish. */
GLEBE_API void glebe_gc_mark(glebe_gc *gc, const void *start, const void *end);
/* Marks the calling thread's stack: its words from the caller's frame up to `base` are references, and so are the
 * registers that calls preserve.
 *
 *     base     main's frame        names the base, and keeps no reference itself
 *       |      work's frame        called by main, and not inlined into it: from here on locals are roots
 *       |      ...
 *       |      glebe_gc_alloc      collects
 *       v      the marker          calls this function
 *
 * `base` is an address in the frame of a function that has called, directly or not, every function whose locals are
 * roots: for example the address of a local variable. The collector may miss references in that function's own
 * frame, since they may be above `base`. A base that is not above the caller's frame is reported. The stack must be
 * that of the thread that allocates. The program must name references on stacks of other threads or coroutines by
 * glebe_gc_mark.
 *
 * WebAssembly: the collector sees only the part of the stack in linear memory. A local variable whose address is not
 * taken is outside of it, where no code of the module can read it: keep its reference in a root. */
GLEBE_API void glebe_gc_mark_stack(glebe_gc *gc, const void *base);

/* Collects now. Returns the bytes of the objects that it found unreachable, and of those that glebe_gc_free freed since
 * the last collection. An object counts with glebe_gc_usable_size bytes. */
GLEBE_API size_t glebe_gc_collect(glebe_gc *gc);
/* A collection in parts, for runtimes that mark their roots themselves: glebe_gc_begin, any number of calls of
 * glebe_gc_mark, then glebe_gc_finish, which returns the same as glebe_gc_collect.
 *
 * From begin to finish, including markers and listeners:
 *   - No other collection begins, and no finalizer runs. glebe_gc_begin does nothing; glebe_gc_collect and
 *     glebe_gc_finalize return 0. glebe_gc_finish returns 0 without a begin, and in a marker or listener.
 *   - Allocation lets memory grow. New objects stay, with all objects that they refer to at finish.
 *   - glebe_gc_free, roots, weak references and finalizers work as usual.
 *   - If the program moves a reference to memory that was marked already, and keeps no other copy, it must name the
 *     reference by glebe_gc_mark. */
GLEBE_API void glebe_gc_begin(glebe_gc *gc);
GLEBE_API size_t glebe_gc_finish(glebe_gc *gc);

/* Sets when to collect: when the bytes allocated since the last collection reach `percent` of the bytes that it found
 * live, roots included, but not before `least_bytes` (default 1 MiB, in WebAssembly 128 KiB). If `every` is not 0,
 * every n-th allocation collects too, n being `every`.
 *
 * The default is GLEBE_GC_PERCENT_DEFAULT: 90 percent. In WebAssembly, where memory never shrinks, that holds up to
 * 4 MiB live; from there on the bytes to allocate grow as the square root of the live ones: with 16 MiB live they are
 * 45 percent, with 64 MiB 22. There a third of any pace is enough where memory would have to grow for an object over
 * 2 KiB, and if the pace is at most 384 KiB, for any object. */
#define GLEBE_GC_PERCENT_DEFAULT ((unsigned)-1)
GLEBE_API void glebe_gc_pace(glebe_gc *gc, unsigned percent, size_t least_bytes, unsigned every);

/* Sets a finalizer. glebe_gc_finalize calls `function(object, context)` once after the object was found unreachable;
 * the object stays alive until the function has returned. An unreachable object is finalized after all others with
 * finalizers that refer to it, directly or not; an object in a cycle is never finalized. A new finalizer replaces the
 * previous one, even if that one is ready; NULL as `function` removes it. Returns 0, ENOMEM, or EINVAL if `object` is
 * not the start of an object. */
typedef void glebe_gc_final(void *object, void *context);
GLEBE_API int glebe_gc_finalizer(glebe_gc *gc, void *object, glebe_gc_final *function, void *context);
/* Runs the finalizers that are ready, and returns how many it ran. They may allocate, collect, free their object,
 * set a finalizer for it again, and call glebe_gc_finalize, which then nests: if every finalizer does so, the stack
 * holds as many calls as finalizers were ready. If a finalizer does not return (longjmp), its object stays alive until
 * glebe_gc_free or glebe_gc_destroy. A finalizer needs no memory to become ready. So a collector at its limit has
 * memory again after this call and a collection. */
GLEBE_API size_t glebe_gc_finalize(glebe_gc *gc);
/* Weak references: the collector sets *slot to NULL when it finds the object that *slot refers to unreachable.
 * `slot` must not be in an object of a collector. Its memory must last until then, or until the slot is removed as
 * often as it was added. glebe_gc_weak_add returns 0, ENOMEM, or EINVAL if `slot` is NULL, not aligned, or in an object
 * of this collector; glebe_gc_weak_remove 0, or ENOENT if `slot` was not added. */
GLEBE_API int glebe_gc_weak_add(glebe_gc *gc, void **slot);
GLEBE_API int glebe_gc_weak_remove(glebe_gc *gc, void **slot);

/* ---- For runtimes of languages; not in WebAssembly ----
 *
 * A kind is a set of objects that the collector tells apart: by GLEBE_GC_KIND(kind) as `layout` of
 * glebe_gc_alloc_layout. Layouts are hints; a kind always holds, even for a single object. The kind must last as long
 * as the collector. `layout` is as for glebe_gc_alloc_layout, but no kind. If `mark` is not NULL, it names the
 * references instead: marking calls it for each object that it reaches, once or several times, with the object's usable
 * bytes. The object may still be all zero. The function calls glebe_gc_mark_object or glebe_gc_mark for each reference,
 * and nothing else of glebe. */
typedef struct glebe_gc_kind {
    uintptr_t layout;
    void (*mark)(glebe_gc *gc, void *object, size_t bytes, const struct glebe_gc_kind *kind);
} glebe_gc_kind;
#define GLEBE_GC_KIND(kind) ((uintptr_t)(kind) | 2)
/* Marks the object that `reference` is or points into. Where glebe_gc_mark may be called, and in a kind's `mark`. */
GLEBE_API void glebe_gc_mark_object(glebe_gc *gc, const void *reference);
/* Between glebe_gc_begin and glebe_gc_finish, and in markers: returns whether marking has reached the object that
 * `object` is or points into. At other times it returns true for every object. */
GLEBE_API bool glebe_gc_marked(const glebe_gc *gc, const void *object);
/* Returns the start of the object that `address` points into; NULL if there is none. */
GLEBE_API void *glebe_gc_base(const glebe_gc *gc, const void *address);
/* Returns the layout of that object, as for glebe_gc_alloc_layout: 0 if every word may be a reference,
 * GLEBE_GC_LAYOUT(1, 0) if none is, or GLEBE_GC_KIND of its kind. For a layout that is no kind it may be 0. Without an
 * object the result is 0. */
GLEBE_API uintptr_t glebe_gc_layout_of(const glebe_gc *gc, const void *object);
/* Pins an object: it is a root until it is unpinned as often, or freed. glebe_gc_pin returns 0, ENOMEM, or EINVAL if
 * `object` is not the start of an object; glebe_gc_unpin 0, or ENOENT if it is not pinned; glebe_gc_pinned whether it
 * is. */
GLEBE_API int glebe_gc_pin(glebe_gc *gc, void *object);
GLEBE_API int glebe_gc_unpin(glebe_gc *gc, void *object);
GLEBE_API bool glebe_gc_pinned(const glebe_gc *gc, const void *object);
/* Calls `visit` for each object, reachable or not yet swept, with its usable bytes. `visit` must not use the collector,
 * except to read. */
GLEBE_API void glebe_gc_each(glebe_gc *gc, void (*visit)(void *context, void *object, size_t bytes), void *context);
/* Changes the limit of glebe_gc_create. Returns 0, or EBUSY if the collector holds more already. */
GLEBE_API int glebe_gc_limit(glebe_gc *gc, size_t limit_bytes);

/* When a finalizer is ready, relative to others. Objects of a cycle are finalized only by GLEBE_GC_UNORDERED; an object
 * that refers to itself, and is in no other cycle, by GLEBE_GC_IGNORES_SELF too. */
typedef enum glebe_gc_order {
    GLEBE_GC_ORDERED, /* after all that refer to the object: what glebe_gc_finalizer does */
    GLEBE_GC_IGNORES_SELF, /* the same, but references of the object to itself do not count */
    GLEBE_GC_UNORDERED, /* as soon as the object is unreachable */
    GLEBE_GC_LAST, /* as ORDERED, and not before unordered ones that refer to the object */
    GLEBE_GC_ORDERS = 3, /* a mask: the bits of the orders above */
    GLEBE_GC_ROOTS_CONTEXT = 4, /* added to an order: the context is a root until the finalizer is called */
} glebe_gc_order;
/* glebe_gc_finalizer with an order; EINVAL if `order` is none. Sets *old_function and *old_context, each unless its
 * pointer is NULL, to the previous finalizer, or to NULL. On error they stay. */
GLEBE_API int glebe_gc_finalizer_order(glebe_gc *gc, void *object, glebe_gc_final *function, void *context,
    unsigned order, glebe_gc_final **old_function, void **old_context);
/* Returns the number of finalizers that are ready. */
GLEBE_API size_t glebe_gc_ready(const glebe_gc *gc);
/* A link is a weak reference that may be anywhere, and may hold anything: *slot becomes NULL when `object`, the start
 * of an object, is found unreachable. A long link waits until finalizers cannot reach the object either. A slot has at
 * most one link of each length. A slot in an object of this collector must not be a reference to the collector, as in a
 * plain object; its link ends with that object. glebe_gc_link_move moves a link without its contents.
 * Return 0 or ENOMEM; EINVAL if the slot of the new link is NULL or not aligned, or `object` is not an object; ENOENT
 * without a link at `slot`; EEXIST if the slot has a link: glebe_gc_link_add then replaced its object. */
GLEBE_API int glebe_gc_link_add(glebe_gc *gc, void **slot, const void *object, bool is_long);
GLEBE_API int glebe_gc_link_move(glebe_gc *gc, void **slot, void **to, bool is_long);
GLEBE_API int glebe_gc_link_remove(glebe_gc *gc, void **slot, bool is_long);

typedef struct glebe_gc_stats {
    uint64_t collections;
    uint64_t allocated_bytes; /* handed out since the start */
    uint64_t live_bytes; /* found by the last collection */
    uint64_t freed_bytes; /* found unreachable, or freed by glebe_gc_free, up to the last collection */
    uint64_t heap_bytes; /* in pages and large objects now */
    uint64_t marked_objects; /* by the last collection */
    uint64_t allocated_objects; /* handed out since the start */
    uint64_t freed_objects; /* found unreachable, or freed by glebe_gc_free, since the start */
    /* how often objects of a page had to wait for their scan: the mark stack was full, or marking ran when they were
     * allocated */
    uint64_t overflows;
} glebe_gc_stats;
GLEBE_API void glebe_gc_stats_read(const glebe_gc *gc, glebe_gc_stats *out);
/* A listener is called when a collection begins, with the statistics before it, and when it has ended. It must
 * return. The rules at glebe_gc_begin apply to it. */
typedef enum glebe_gc_event { GLEBE_GC_BEGINS, GLEBE_GC_ENDED } glebe_gc_event;
typedef void glebe_gc_listener(void *context, glebe_gc_event event, const glebe_gc_stats *stats);
GLEBE_API void glebe_gc_on_event(glebe_gc *gc, glebe_gc_listener *listener, void *context);

/* ---- Returning memory -------------------------------------------------------------------------------------------- */

/* Purges (returns to the OS) free memory of the heap and of abandoned heaps, and free runs, without waiting for the
 * purge delay. NULL as `heap` is the calling thread's heap. Returns the bytes purged. */
GLEBE_API size_t glebe_trim(glebe_heap *heap);

/* The pressure callback lets the program drop caches of its own. glebe first purges all memory that it retains, and
 * then calls it in two cases:
 *   - The cgroup of this process uses more than 95 % of its limit. Cached files that the system would drop first do not
 *     count. glebe checks when a heap needs blocks, not while a process idles, and only once 64 MiB were in
 *     use. It calls at most once a second.
 *   - A request would exceed the option `limit`. glebe calls every time, and then tries the request again. A request
 *     that alone is larger than the limit, or that is beyond a heap's own limit or the system's memory, fails without a
 *     call.
 *
 * The call comes from inside malloc in any thread, with no lock held. Several threads may be in it at once, but a
 * thread never enters it twice. The callback must return. It may allocate, free, destroy heaps, and call any other
 * function, with these exceptions. It must not allocate in a heap of glebe_heap_create, or destroy a collector, that
 * this very thread is allocating from. It must not take a lock that callers of malloc hold. In the callback, NULL as
 * `heap` means a temporary heap. If the call comes from adding a root, a weak reference or a finalizer, that collector
 * does not collect during the call. */
typedef void glebe_pressure(void *context, uint64_t used_bytes, uint64_t limit_bytes);
/* Sets the callback of the process. Other threads may still be in the previous one. NULL removes it. */
GLEBE_API void glebe_on_pressure(glebe_pressure *callback, void *context);

/* Says whether the calling thread may sleep while it waits for other threads that use the heap. Has an effect only in
 * WebAssembly with shared memory. By default threads may sleep under WASI, and nowhere else. The main thread of a
 * browser must not sleep: it would trap. */
GLEBE_API void glebe_thread_wait(bool sleeps);

/* ---- Options ----------------------------------------------------------------------------------------------------- */

/* Sets an option. The library also reads each from the environment when it starts, as GLEBE_ and the name in
 * capitals:
 *   verbose      0 | 1          at exit print that glebe was active, and what it did, to the stderr open when set
 *   stats        0 | 1 | json   at exit print the statistics, to the same stderr
 *   background   0 | 1          a thread that purges while the process idles
 *   huge_pages   1 | 0          ask the system for huge pages where memory fills densely (default), or never
 *   profile_bytes bytes         bytes between two samples of a heap profile, on average (default 512 KiB)
 *   guard        bytes          guard a block at each so many bytes of allocations: docs/guards.md; 0 is none (default)
 *   limit        bytes          bound on the memory of the whole process, as 512M or 1.5G; 0 is none. It may be less
 *                               than is in use: then requests for more memory fail until enough is freed
 *   purge_ms     milliseconds   how long memory stays free before it is purged (default 500)
 *   purge        dontneed|free  how it is purged then: at once (default), or when the system needs it
 *   on_error     abort | count  what follows the report of misuse
 *   deepbind     0 | 1          pass RTLD_DEEPBIND on to dlopen, though a module then has the C library's malloc
 * From the environment only: GLEBE_SECURE=1, 2 or 3, the level of the secure build, and GLEBE_TAGS=0 (both:
 * docs/security.md); GLEBE_LARGE_PAGES=1 on Windows (docs/windows.md). Returns 0; ENOENT for an unknown name; EINVAL
 * for a value that does not parse, which leaves the option unchanged; EBUSY for `secure` and `tags`; for `guard` ENOSYS
 * or ENOMEM where no block can be guarded. */
GLEBE_API int glebe_option(const char *name, const char *value);

/* ---- Heap profiles ----------------------------------------------------------------------------------------------- */

/* A heap profile says which callers allocated how many bytes, which of them are in use, and which were when most was
 * in use. glebe samples one byte in `mean_bytes` on average, and notes the callers of the allocation with that byte.
 * The sums are estimates without bias, except at the peak of a process that held 1 MiB before the start: its peak is
 * the largest estimate. docs/profile.md says how large their error is, and how to read a profile (the command
 * `glebe profile`).
 *
 * Blocks of malloc and its family are sampled, in all threads; blocks of heaps from glebe_heap_create, pools and
 * collected objects are not. There is one profile a process. GLEBE_PROFILE=PATH starts it with the process, and writes
 * PATH.PID.N at exit and once a second.
 *
 * Start: `mean_bytes` 0 is the option profile_bytes (512 KiB). Returns 0; EBUSY if a profile runs; ENOMEM; ENOSYS in
 * builds without profiles (WebAssembly, the secure and the audit build, and hosts other than Linux and Windows). */
GLEBE_API int glebe_profile_start(size_t mean_bytes);
/* Ends sampling. What was sampled stays, and its frees are still noted. A later start goes on with it. */
GLEBE_API void glebe_profile_stop(void);
/* Writes the profile to the file `path`, which it replaces at once when it is complete. Returns 0; ENOENT if no profile
 * was ever started; EINVAL for a path that is empty or over 560 bytes long; the system's error; ENOSYS as above. */
GLEBE_API int glebe_profile_write(const char *path);
/* Gives the calling thread a label that its samples carry from now on, such as the tenant or the route that it works
 * for; `value` NULL takes it away. Both texts are copied. They are kept for good, and so is each set of labels that a
 * thread has, so sets should be few: no numbers of requests. Costs malloc and free nothing. The first call makes the
 * sampler's tables, of a few KiB. Returns 0; EINVAL if the key is not 1 to 43 bytes, or the value not 1 to 207, without
 * control characters, the key without spaces; E2BIG for a ninth label of the thread; ENOMEM, also after some 65,000
 * sets, and the thread then has no labels; ENOSYS as above. */
GLEBE_API int glebe_profile_label(const char *key, const char *value);

/* ---- Leaks ------------------------------------------------------------------------------------------------------- */

/* A block that malloc handed out and that nothing in the process refers to any more. `callers` are the return addresses
 * of its allocation, the innermost first, if that was sampled by a heap profile; else callers_count is 0. */
typedef struct glebe_leak {
    const void *block;
    size_t bytes; /* of the block: at least those that the program asked for */
    bool first; /* no other leaked block refers to it, as to the head of a list */
    uint32_t callers_count;
    const uintptr_t *callers; /* valid until the callback returns */
} glebe_leak;
/* Later versions may add fields at the end of these two. */
typedef struct glebe_leaks_sums {
    uint64_t leaked_blocks, leaked_bytes;
    uint64_t live_blocks, live_bytes; /* all that malloc has handed out, leaked or not */
    uint64_t threads; /* of the process */
    uint64_t stopped_us; /* microseconds of the longest stop */
} glebe_leaks_sums;
typedef void glebe_leaks_each(void *context, const glebe_leak *leak);

/* Searches this process for leaks, and calls `each` (NULL: nothing) with every leaked block, by address. `each` runs on
 * the calling thread and may call any function. Sets *sums (NULL: not wanted), of which the caller knows the first
 * `sums_bytes` bytes: sizeof *sums. docs/explain.md says what a root is, and what a search may miss.
 *
 * All other threads stop while the process is copied as by fork, twice if there are leaks. They stop by a signal, so
 * calls that wait, such as poll and nanosleep, may end with EINTR. The copies are searched while the program goes on; a
 * search takes three bits for each 16 bytes. The answer is that of `glebe leaks`.
 *
 * Returns 0; EBUSY if another thread searches, as does a call from `each`; EAGAIN if a thread did not stop within
 * 0.2 s; EDEADLK within a fork handler; ENOMEM if the search had no memory, could not read /proc, or was ended; the
 * system's error if it permits no file in memory or no child; ENOSYS on hosts other than Linux on 64 bits. */
GLEBE_API int glebe_leaks(glebe_leaks_sums *sums, size_t sums_bytes, glebe_leaks_each *each, void *context);

/* ---- Statistics -------------------------------------------------------------------------------------------------- */

/* One list: glebe_stats_read reads it, glebe_stats_text and glebe_stats_json print it, and `glebe_live` holds it for
 * readers outside the process. X(name, unit, meaning) */
#define GLEBE_STATS(X)                                                                                                 \
    X(committed_bytes, "bytes", "memory that may be touched: chunks and huge blocks")                                  \
    X(used_bytes, "bytes", "held by pages, large and huge blocks")                                                     \
    X(peak_used_bytes, "bytes", "the most that used_bytes has been")                                                   \
    X(small_bytes, "bytes", "pages of blocks up to 2 KiB")                                                             \
    X(medium_bytes, "bytes", "pages of blocks over 2 KiB up to 64 KiB")                                                \
    X(large_bytes, "bytes", "blocks over 64 KiB up to 1 MiB, including warm ones")                                     \
    X(huge_bytes, "bytes", "blocks over 1 MiB, some over 256 KiB, pools; warm ones too")                            \
    X(huge_retained_bytes, "bytes", "memory of freed or moved huge blocks, not purged yet")                            \
    X(table_bytes, "bytes", "slice table, chunk table and heaps")                                                      \
    X(huge_page_bytes, "bytes", "memory for which huge pages were advised")                                            \
    X(purged_bytes, "bytes", "memory returned to the OS since the start")                                              \
    X(purges, "count", "calls that returned memory to the OS")                                                         \
    X(pages_taken, "count", "pages taken from chunks since the start")                                                 \
    X(pages_returned, "count", "pages returned to chunks since the start")                                             \
    X(heaps, "count", "heaps in use, of threads and of the program")                                                   \
    X(heaps_abandoned, "count", "heaps of threads that ended, waiting for a new thread")                               \
    X(heaps_reclaimed, "count", "times that a new thread took an abandoned heap")                                      \
    X(pages_reclaimed, "count", "pages taken from abandoned heaps")                                                    \
    X(errors, "count", "misuse that was reported")                                                                     \
    X(out_of_memory, "count", "requests that could not be served")                                                     \
    X(foreign_frees, "count", "blocks from a C library's own heap, freed to that heap (Windows)")

typedef struct glebe_stats {
#define GLEBE_FIELD(name, unit, meaning) uint64_t name;
    GLEBE_STATS(GLEBE_FIELD)
#undef GLEBE_FIELD
} glebe_stats;

/* Reads the statistics of the whole process. */
GLEBE_API void glebe_stats_read(glebe_stats *out);
/* Write the statistics into `buffer` (NUL-terminated, cut at `bytes`) as a table or as one line of JSON. Return the
 * length of the whole text, like snprintf. */
GLEBE_API size_t glebe_stats_text(char *buffer, size_t bytes);
GLEBE_API size_t glebe_stats_json(char *buffer, size_t bytes);

/* For readers outside the process (symbol `glebe_live`). The names are in `glebe_live_names`: each ends with a NUL,
 * and an empty name ends the list. */
#define GLEBE_LIVE_MAGIC UINT64_C(0x676c6562654c4956)
struct glebe_live {
    uint64_t magic, version, size_bytes, count;
    glebe_stats stats;
};
GLEBE_API extern struct glebe_live glebe_live;
GLEBE_API extern const char glebe_live_names[];

/* ---- Checking ---------------------------------------------------------------------------------------------------- */

/* Called once for each broken invariant, numbered as in docs/invariants.md, with the address where it was found. */
typedef void glebe_check_report(void *context, int invariant, const void *address, const char *what);
/* Walks all that the heap owns (NULL: every heap and the arena), and returns the number of broken invariants. Level
 * 1 checks the tables; level 2 also checks every free list. Allocates nothing. All threads that use the heap must be
 * at rest. In a child of fork, a heap of glebe_heap_create that another thread used at the fork is not at rest.
 * `report` may be NULL; it must not allocate. */
GLEBE_API int glebe_check(glebe_heap *heap, int level, glebe_check_report *report, void *context);
/* Checks a collector's pages and marks, between collections. Returns the number of broken invariants. */
GLEBE_API int glebe_gc_check(glebe_gc *gc, glebe_check_report *report, void *context);
/* Checks a pool: every object is free or in use, exactly once. Returns the number of broken invariants. glebe_check of
 * its heap does the same at level 2. No thread may read or use the pool meanwhile. */
GLEBE_API int glebe_pool_check(glebe_pool *pool, glebe_check_report *report, void *context);

#ifdef __cplusplus
}
#endif
#endif
