/* glebe: a general-purpose malloc with first-class heaps.       MIT OR Apache-2.0
 *
 * Sizes and limits are bytes, times are milliseconds, addresses are pointers. Functions that allocate return NULL and
 * set errno (ENOMEM; EINVAL where an alignment is wrong) when they cannot serve. Functions that return int return 0 or
 * an errno value, unless they say otherwise. Blocks are aligned to 16 bytes at least, except where
 * glebe_heap_realloc_sized says otherwise. No function here throws. Any thread may call every function whose comment
 * names no owner. A signal handler may call `glebe_usable_size` and `glebe_version` alone: see docs/contracts.md.
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

/* A program that takes the source in and wants these functions for itself alone defines GLEBE_API. */
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

/* The version of the library that is linked, as GLEBE_VERSION counts it (100 is 0.1.0). */
GLEBE_API int glebe_version(void);

/* ---- The malloc family ------------------------------------------------------------------------------------------- */

/* Each is the twin of the C or POSIX function of that name, on the calling thread's heap. Any thread may free a block.
 * With the override linked or preloaded, `malloc` IS `glebe_malloc`, and blocks of the two mix freely. */

/* At least `bytes` bytes, not cleared. `bytes` 0 gives a unique pointer that must be freed. */
GLEBE_API void *glebe_malloc(size_t bytes) GLEBE_ALLOC(1);
/* `count * bytes` bytes, all zero; NULL and ENOMEM where the product overflows. Fresh memory is not cleared a second
 * time. */
GLEBE_API void *glebe_calloc(size_t count, size_t bytes) GLEBE_ALLOC(1, 2);
/* Resizes `block` (NULL allocates), in place where it can. On failure `block` stays as it was. `bytes` 0 frees the
 * block and returns NULL, as glibc does. */
GLEBE_API void *glebe_realloc(void *block, size_t bytes);
/* glebe_realloc of `count * bytes`; NULL and ENOMEM where the product overflows, and `block` stays. */
GLEBE_API void *glebe_reallocarray(void *block, size_t count, size_t bytes);
/* Frees `block`; NULL does nothing. errno is kept. */
GLEBE_API void glebe_free(void *block);
/* C23: as glebe_free. `bytes` is the size that was asked for. A size that the block cannot hold is reported. */
GLEBE_API void glebe_free_sized(void *block, size_t bytes);
/* C23: as glebe_free_sized, of a block from glebe_aligned_alloc(alignment, bytes). */
GLEBE_API void glebe_free_aligned_sized(void *block, size_t alignment, size_t bytes);
/* `alignment` must be a power of two, else NULL and EINVAL. `bytes` need not be a multiple of it. */
GLEBE_API void *glebe_aligned_alloc(size_t alignment, size_t bytes) GLEBE_ALLOC(2);
/* 0, EINVAL (alignment no power of two or no multiple of sizeof(void *)) or ENOMEM. *out is set on success only. */
GLEBE_API int glebe_posix_memalign(void **out, size_t alignment, size_t bytes);
/* As glebe_aligned_alloc; an alignment that is no power of two is rounded up to one, as glibc does. */
GLEBE_API void *glebe_memalign(size_t alignment, size_t bytes) GLEBE_ALLOC(2);
/* Aligned to an OS page; glebe_pvalloc rounds the size up to whole pages too. */
GLEBE_API void *glebe_valloc(size_t bytes) GLEBE_ALLOC(1);
GLEBE_API void *glebe_pvalloc(size_t bytes) GLEBE_ALLOC(1);
/* Bytes that may be used at `block`: at least what was asked for. 0 for NULL. */
GLEBE_API size_t glebe_usable_size(const void *block);
/* A copy of a string in a block of its own; glebe_strndup copies `bytes` bytes at most and ends them with a NUL. */
GLEBE_API char *glebe_strdup(const char *string);
GLEBE_API char *glebe_strndup(const char *string, size_t bytes);

/* ---- Heaps ------------------------------------------------------------------------------------------------------- */

/* A heap owns its memory: it can be limited, measured, and destroyed at once with all blocks in it. One thread at a
 * time may allocate in a heap or call the functions below on it. Another thread may take its place, if the caller
 * orders the calls. `free` and glebe_free may free its blocks from any thread at any time. Wherever `heap` may be NULL,
 * NULL means the calling thread's own heap. */
typedef struct glebe_heap glebe_heap;

/* A new heap, or NULL and ENOMEM. `limit_bytes` 0 is no limit; else the pages and blocks that the heap holds stay
 * within it (counted in slices of 16 KiB), and allocation beyond it gives NULL and ENOMEM. */
GLEBE_API glebe_heap *glebe_heap_create(size_t limit_bytes);
/* Frees every block of the heap and the heap. All frees of its blocks by other threads must have returned. NULL does
 * nothing. */
GLEBE_API void glebe_heap_destroy(glebe_heap *heap);
/* Changes the limit; EBUSY where the heap holds more already (it stays as it was), ENOMEM where a thread's own heap
 * is not there yet and cannot be made. */
GLEBE_API int glebe_heap_limit(glebe_heap *heap, size_t limit_bytes);
/* Bytes of address space that the heap holds in pages, large and huge blocks: what its limit counts. */
GLEBE_API size_t glebe_heap_bytes(const glebe_heap *heap);

GLEBE_API void *glebe_heap_malloc(glebe_heap *heap, size_t bytes) GLEBE_ALLOC(2);
GLEBE_API void *glebe_heap_calloc(glebe_heap *heap, size_t count, size_t bytes) GLEBE_ALLOC(2, 3);
GLEBE_API void *glebe_heap_aligned_alloc(glebe_heap *heap, size_t alignment, size_t bytes) GLEBE_ALLOC(3);
/* `block` must be of this heap. As glebe_realloc. A block of glebe_heap_realloc_sized may stay where it is, on a
 * multiple of 8. */
GLEBE_API void *glebe_heap_realloc(glebe_heap *heap, void *block, size_t bytes);
/* `old_bytes` is the size that was last asked for: small blocks are resized without a look-up. Shrinking does not
 * fail. NULL allocates, and `bytes` 0 frees and returns NULL, whatever `old_bytes` says: this is Lua's lua_Alloc.
 * Blocks that it allocates or moves serve what needs an alignment of 8: those of 17 to 24, 33 to 40 and 49 to 56
 * bytes lie on multiples of 8, where glebe_heap_malloc's lie on those of 16. */
GLEBE_API void *glebe_heap_realloc_sized(glebe_heap *heap, void *block, size_t old_bytes, size_t bytes);
/* `block` must be of this heap. */
GLEBE_API void glebe_heap_free(glebe_heap *heap, void *block);
/* As glebe_heap_free. `bytes` is the size that was last asked for. */
GLEBE_API void glebe_heap_free_sized(glebe_heap *heap, void *block, size_t bytes);
/* Whether `block`, which is in use and may be of any allocator, is of this heap. As cheap as a free. */
GLEBE_API bool glebe_heap_owns(const glebe_heap *heap, const void *block);

/* ---- Pools ------------------------------------------------------------------------------------------------------- */

/* A pool is an array of units that grows up to a limit, with objects of 1 to `most_units` units in it: one size, or a
 * family of sizes in one space of indices, each with its list of free objects. docs/pools.md shows both.
 *
 *     index    1     2     3     4     5     6     7     8             a pointer and an index name the same object,
 *           |  2 units  |  1  |     3 units     |  2 units  | ...      and never change; index 0 is none
 *
 * An object is aligned to the largest power of two in `unit_bytes`, up to 16. A freed object serves requests of its
 * size, and others only where there is no more memory. One thread at a time may use a pool and call the functions
 * below on it: a thread that may use its heap, too. */
typedef struct glebe_pool {
    /* read by the functions below alone; behind it lie the lists, by units */
    uintptr_t base; /* object i is at base + i * unit_bytes */
    uintptr_t first, bytes; /* where objects lie; 0 bytes in the audit build, which is told of each call */
    uint32_t unit_bytes, inverse, shift; /* unit_bytes is odd << shift, and odd * inverse is 1 */
    uint32_t most_units;
} glebe_pool;
typedef void *glebe_pool_link
#if defined(__GNUC__)
    __attribute__((may_alias))
#endif
    ;

/* A new pool, or NULL and ENOMEM; EINVAL where `unit_bytes` is 0, no multiple of sizeof(void *) or over 4096,
 * `most_units` 0 or over 1024, or `limit_bytes` less than the largest object or more than 2^32 units. Its memory
 * comes from `heap`, of glebe_heap_create, and counts against that heap's limit; NULL is a heap of its own. It grows
 * by `step_bytes`, 0 is 64 KiB, up to `limit_bytes`. On 64 bits the limit's address space is set aside at once:
 * indices follow each other from 1 on. On 32 bits a pool is made of pieces: an index is an address divided by the
 * unit, below 2^32 / unit_bytes. */
GLEBE_API glebe_pool *glebe_pool_create(
    glebe_heap *heap, size_t unit_bytes, size_t most_units, size_t limit_bytes, size_t step_bytes);
/* Frees every object and the pool; glebe_heap_destroy of its heap does the same. NULL does nothing. */
GLEBE_API void glebe_pool_destroy(glebe_pool *pool);
/* Frees every object at once. The memory stays with the pool, or goes back but for its first step. */
GLEBE_API void glebe_pool_reset(glebe_pool *pool, bool give_back);

/* What the two below fall back to. */
GLEBE_API void *glebe_pool_alloc_slow(glebe_pool *pool, size_t units);
GLEBE_API void glebe_pool_free_slow(glebe_pool *pool, void *object, size_t units);

/* An object of `units` units, which must be 1 to most_units, not cleared; NULL and ENOMEM at the limit. */
static inline void *glebe_pool_alloc(glebe_pool *pool, size_t units)
{
    void **list = (void **)(pool + 1) + units, *object = *list;
    if (!object)
        return glebe_pool_alloc_slow(pool, units);
    *list = *(glebe_pool_link *)object;
    return object;
}

/* Frees an object of `units` units, as many as it was asked for with. An address outside the pool is reported; NULL
 * does nothing. */
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

/* From index to object and back. They are not checked. */
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
    uint64_t held_bytes; /* of the heap's memory */
    uint64_t used_bytes; /* of objects in use */
    uint64_t free_bytes; /* of free objects; the rest of what is held was not given out yet */
    uint64_t free_objects;
} glebe_pool_stats;
/* Walks the free lists. */
GLEBE_API void glebe_pool_stats_read(const glebe_pool *pool, glebe_pool_stats *out);

/* ---- Collection -------------------------------------------------------------------------------------------------- */

/* A collector owns objects that the program does not free: it finds those that cannot be reached from its roots, and
 * uses their memory again. One thread at a time may use it, and all of the program's threads that hold references into
 * it must be at rest while it collects.
 *
 * A word is a reference if it holds an address inside an object, wherever inside. The collector looks at
 *     - memory that glebe_gc_root_add named,
 *     - what the marker names in each collection (glebe_gc_on_mark), such as the stack,
 *     - in reachable objects, the words that their layout names,
 * and at nothing else: at no static variable that is not named, no block of malloc, no local variable.
 *
 * WARNING. An object that only a local variable refers to is freed by the next collection, and every allocation may
 * collect. Add roots, or have a marker call glebe_gc_mark_stack: docs/collector.md has a program of each kind. */
typedef struct glebe_gc glebe_gc;

/* A new collector, or NULL and ENOMEM. `limit_bytes` 0 is no limit; else its objects' pages and its own tables stay
 * within it: a limit that would leave no room for objects is refused (128 KiB never is). Collectors are independent:
 * each is one thread's, at the same time, and what looks like a reference to another's object is none. The one that
 * was created first marks some 10 % faster than further ones. */
GLEBE_API glebe_gc *glebe_gc_create(size_t limit_bytes);
/* Frees all objects at once; no finalizer runs, and memory of roots and weak references is not looked at. A
 * collector must not be destroyed by its own marker or listener, which is reported, nor by a finalizer of its
 * objects. NULL does nothing. */
GLEBE_API void glebe_gc_destroy(glebe_gc *gc);

/* Objects of `bytes` bytes, all zero, aligned to 16 (where pointers have 4 bytes and `bytes` is not a multiple of 16:
 * to 8). NULL and ENOMEM where a collection, too, makes no room. Any of these may collect first: what is not reachable
 * then is gone, the caller's other new objects included.
 *     glebe_gc_alloc           every aligned word of it may be a reference
 *     glebe_gc_alloc_plain     none is
 *     glebe_gc_alloc_layout    `layout` says which. GLEBE_GC_LAYOUT(words, mask) is that of an element, which repeats
 *                              to the object's end: bit i of the mask is word i. Or `layout` is the address of a
 *                              glebe_gc_layout, which must last as long as the collector. Of a layout of 0 words
 *                              every word may be one */
GLEBE_API void *glebe_gc_alloc(glebe_gc *gc, size_t bytes) GLEBE_ALLOC(2);
GLEBE_API void *glebe_gc_alloc_plain(glebe_gc *gc, size_t bytes) GLEBE_ALLOC(2);
GLEBE_API void *glebe_gc_alloc_layout(glebe_gc *gc, size_t bytes, uintptr_t layout) GLEBE_ALLOC(2);
#define GLEBE_GC_LAYOUT_BITS (4 + sizeof(uintptr_t) / 4) /* of the count of words */
#define GLEBE_GC_LAYOUT(words, mask) \
    ((uintptr_t)1 | (uintptr_t)(words) << 1 | (uintptr_t)(mask) << (1 + GLEBE_GC_LAYOUT_BITS))
typedef struct glebe_gc_layout {
    uintptr_t words; /* of an element; it may be longer than the object */
    /* as many as it takes, for words or for the longest object: word i is a reference if bits[i / 8] >> i % 8 & 1 */
    uint8_t bits[1];
} glebe_gc_layout;
/* Gives an object back at once; `object` must be its start, else it is reported. For a caller that knows that
 * nothing refers to it. Its finalizer will not run. Weak references to it become NULL and are forgotten: that takes
 * a look at each weak reference there is. NULL does nothing. */
GLEBE_API void glebe_gc_free(glebe_gc *gc, void *object);
/* Bytes that may be used at `object`, which may point into it; 0 if no object is there. */
GLEBE_API size_t glebe_gc_usable_size(const glebe_gc *gc, const void *object);

/* Roots: memory whose words are references, and which lasts until they are removed. ENOMEM; EINVAL where the range
 * passes the end of memory; or 0. Ranges may overlap. A range is removed by its start: ENOENT where there is none.
 * Ranges with the same start are removed one by one; until the last of them is, the longest counts. A root that is
 * added while a collection marks counts in that collection. */
GLEBE_API int glebe_gc_root_add(glebe_gc *gc, const void *start, size_t bytes);
GLEBE_API int glebe_gc_root_remove(glebe_gc *gc, const void *start);
/* Called in each collection, by the thread that allocates or collects, to name further roots by glebe_gc_mark and
 * glebe_gc_mark_stack. It must return. What glebe_gc_begin says of the time from begin to finish holds for it. */
typedef void glebe_gc_marker(void *context, glebe_gc *gc);
GLEBE_API void glebe_gc_on_mark(glebe_gc *gc, glebe_gc_marker *marker, void *context);
/* From a glebe_gc_marker, or between glebe_gc_begin and glebe_gc_finish: the words in [start, end) are references. */
GLEBE_API void glebe_gc_mark(glebe_gc *gc, const void *start, const void *end);
/* The same of the calling thread's stack: its words from the caller's frame up to `base` are references, and so are the
 * registers that calls preserve.
 *
 *     base     main's frame        names the base, and keeps no reference itself
 *       |      work's frame        called by main, and not inlined into it: from here on locals are roots
 *       |      ...
 *       |      glebe_gc_alloc      collects
 *       v      the marker          calls this function
 *
 * `base` is an address in the frame of a function that has called, directly or not, every function whose locals are
 * roots: the address of a local variable will do. References in that function's own frame may lie above it, where they
 * are not looked at. A base that is not above the caller's frame is reported. The stack must be that of the thread that
 * allocates; references on stacks of other threads or coroutines must be named by glebe_gc_mark.
 *
 * WebAssembly: only the part of the stack in linear memory is looked at. A local variable whose address is not taken is
 * elsewhere, and no code of the module can read it there: keep such references in roots. */
GLEBE_API void glebe_gc_mark_stack(glebe_gc *gc, const void *base);

/* Collects now. Returns the bytes of objects that were found unreachable, holes in pages and all. */
GLEBE_API size_t glebe_gc_collect(glebe_gc *gc);
/* The same in parts, for runtimes that mark their roots by themselves: begin; glebe_gc_mark, any number of times;
 * finish.
 *
 * From begin to finish, which includes markers and listeners:
 *   - no other collection begins, and no finalizer runs: glebe_gc_begin does nothing, glebe_gc_collect and
 *     glebe_gc_finalize return 0. So does glebe_gc_finish without a begin, and in a marker or listener.
 *   - allocation lets memory grow. What is new stays, with all that it refers to at finish.
 *   - glebe_gc_free, roots, weak references and finalizers work as ever.
 *   - a reference that is moved to memory which was marked already, and nowhere else, must be named by
 *     glebe_gc_mark. */
GLEBE_API void glebe_gc_begin(glebe_gc *gc);
GLEBE_API size_t glebe_gc_finish(glebe_gc *gc);

/* When to collect: when so many bytes were allocated since the last time as `percent` of what was found live then,
 * roots included (90), and `least_bytes` at least (1 MiB, in WebAssembly 128 KiB). `every` > 0: at every n-th
 * allocation. */
GLEBE_API void glebe_gc_pace(glebe_gc *gc, unsigned percent, size_t least_bytes, unsigned every);

/* `function(object, context)` is called once after the object was found unreachable, by glebe_gc_finalize, and keeps
 * it alive until it has returned. Of objects that refer to each other the one goes first that none refers to; those
 * in a circle are never finalized. To set another one takes the first one's place, also where that is due already;
 * NULL as function: no more. ENOMEM, EINVAL where `object` is not the start of one, or 0. */
typedef void glebe_gc_final(void *object, void *context);
GLEBE_API int glebe_gc_finalizer(glebe_gc *gc, void *object, glebe_gc_final *function, void *context);
/* Runs the finalizers that are ready, and returns how many it ran. They may allocate, collect, free their object,
 * set a finalizer for it again, and call glebe_gc_finalize. A finalizer that does not return (longjmp) leaves its
 * object alive until glebe_gc_free or glebe_gc_destroy. Finalizers need no memory to become ready: a collector at
 * its limit frees again after this call and a collection. */
GLEBE_API size_t glebe_gc_finalize(glebe_gc *gc);
/* *slot, which must not lie in an object of a collector, is set to NULL when what it refers to is found unreachable.
 * The slot is known until then, or until it was removed as often as it was added; its memory must last so long.
 * ENOMEM; EINVAL where `slot` is NULL, not aligned, or in an object of this collector; ENOENT; or 0. */
GLEBE_API int glebe_gc_weak_add(glebe_gc *gc, void **slot);
GLEBE_API int glebe_gc_weak_remove(glebe_gc *gc, void **slot);

typedef struct glebe_gc_stats {
    uint64_t collections;
    uint64_t allocated_bytes; /* handed out since the start */
    uint64_t live_bytes; /* found by the last collection */
    uint64_t freed_bytes; /* found unreachable since the start */
    uint64_t heap_bytes; /* pages and large objects now */
    uint64_t marked_objects; /* by the last collection */
    uint64_t allocated_objects; /* handed out since the start */
    uint64_t freed_objects; /* found unreachable, or given back, since the start */
    uint64_t overflows; /* times that marking went over a page again for want of room */
} glebe_gc_stats;
GLEBE_API void glebe_gc_stats_read(const glebe_gc *gc, glebe_gc_stats *out);
/* Told when a collection begins (stats as before it) and when it has ended. It must return. See glebe_gc_begin for
 * what it may do. */
typedef enum glebe_gc_event { GLEBE_GC_BEGINS, GLEBE_GC_ENDED } glebe_gc_event;
typedef void glebe_gc_listener(void *context, glebe_gc_event event, const glebe_gc_stats *stats);
GLEBE_API void glebe_gc_on_event(glebe_gc *gc, glebe_gc_listener *listener, void *context);

/* ---- Giving memory back ------------------------------------------------------------------------------------------ */

/* Returns to the OS what the calling thread's heap, abandoned heaps (those of threads that ended) and the free runs
 * hold, without waiting for the purge delay. `heap` may be NULL. Returns the bytes that were given back. */
GLEBE_API size_t glebe_trim(glebe_heap *heap);

/* Called when memory is about to end and glebe has given back all that it kept for reuse, so that the program can drop
 * what it keeps itself:
 *   - use by the group of processes that this one is in (its cgroup) is above 95 % of the group's limit, not counting
 *     cached files that the system would drop first. Looked at when a heap is short of blocks, not while a process
 *     idles, and only from 64 MiB of heap on; at most once a second.
 *   - a request would pass the option `limit`, each time: the request is tried again afterwards, and fails only then. A
 *     heap's own limit, and a system that is out of memory, just fail.
 * It is called from inside the malloc of whichever thread is there, with no lock held, by several threads at once if
 * they get there at once, never within itself. It may allocate and free, destroy heaps, and call whatever else there
 * is, but not allocate in a heap of glebe_heap_create or destroy a collector that this very thread is allocating
 * from, nor take a lock that its own callers of malloc hold. NULL as `heap` means a heap that serves while it runs.
 * A collector does not collect in it that was called to add a root, a weak reference or a finalizer. It must return. */
typedef void glebe_pressure(void *context, uint64_t used_bytes, uint64_t limit_bytes);
/* One for the process: the callback from now on, in place of the one before, which other threads may be in still.
 * NULL is none. */
GLEBE_API void glebe_on_pressure(glebe_pressure *callback, void *context);

/* WebAssembly with shared memory alone (elsewhere it does nothing): whether the calling thread may sleep while
 * others are in the heap. Without it threads do under WASI, and nowhere else. The main thread of a browser must not:
 * there it would trap. */
GLEBE_API void glebe_thread_wait(bool sleeps);

/* ---- Options ----------------------------------------------------------------------------------------------------- */

/* The library also reads each from the environment when it starts, as GLEBE_ and the name in capitals:
 *   verbose      0 | 1          say at exit that glebe was active, and what it did, on the stderr of when it was set
 *   stats        0 | 1 | json   print the statistics at exit, there too
 *   background   0 | 1          a thread that gives memory back while the process idles
 *   huge_pages   1 | 0          ask the system for huge pages where memory fills densely (default), or never
 *   limit        bytes          no more memory than this for the whole process, as 512M or 1.5G; 0 is none
 *   purge_ms     milliseconds   how long memory stays free before it is given back (default 500)
 *   purge        dontneed|free  how time gives it back: at once (default), or when the system comes to want it
 *   on_error     abort | count  what follows the line on stderr about misuse
 *   deepbind     0 | 1          pass RTLD_DEEPBIND on to dlopen, though a module then has the C library's malloc
 * Windows also knows GLEBE_LARGE_PAGES=1, from the environment alone: docs/windows.md.
 * Returns 0, ENOENT for an unknown name, EINVAL for a value that does not parse (the option stays as it was). */
GLEBE_API int glebe_option(const char *name, const char *value);

/* ---- Statistics -------------------------------------------------------------------------------------------------- */

/* One list: glebe_stats_read reads it, glebe_stats_text and glebe_stats_json print it, and `glebe_live` has it for
 * readers outside the process. X(name, unit, meaning) */
#define GLEBE_STATS(X)                                                                                                 \
    X(committed_bytes, "bytes", "memory that may be touched: chunks and huge blocks")                                  \
    X(used_bytes, "bytes", "held by pages, large and huge blocks")                                                     \
    X(peak_used_bytes, "bytes", "the most that used_bytes has been")                                                   \
    X(small_bytes, "bytes", "pages of blocks up to 2 KiB")                                                             \
    X(medium_bytes, "bytes", "pages of blocks over 2 KiB up to 64 KiB")                                                \
    X(large_bytes, "bytes", "blocks over 64 KiB up to 1 MiB")                                                          \
    X(huge_bytes, "bytes", "blocks over 1 MiB, and over 256 KiB where realloc grew them")                              \
    X(huge_retained_bytes, "bytes", "of freed or replaced blocks of that size, not given back yet")                    \
    X(table_bytes, "bytes", "slice table, chunk table and heaps")                                                      \
    X(huge_page_bytes, "bytes", "memory for which huge pages were advised")                                            \
    X(purged_bytes, "bytes", "given back to the OS since the start")                                                   \
    X(purges, "count", "calls that gave memory back")                                                                  \
    X(pages_taken, "count", "pages taken from chunks since the start")                                                 \
    X(pages_returned, "count", "pages returned to chunks since the start")                                             \
    X(heaps, "count", "heaps in use, of threads and of the program")                                                   \
    X(heaps_abandoned, "count", "heaps of threads that ended, waiting for a new thread")                               \
    X(heaps_reclaimed, "count", "times that a new thread took an abandoned heap")                                      \
    X(pages_reclaimed, "count", "pages taken from abandoned heaps")                                                    \
    X(errors, "count", "misuse that was reported")                                                                     \
    X(out_of_memory, "count", "requests that could not be served")                                                     \
    X(foreign_frees, "count", "freed blocks that were a C library's own heap's, which has them back (Windows)")

typedef struct glebe_stats {
#define GLEBE_FIELD(name, unit, meaning) uint64_t name;
    GLEBE_STATS(GLEBE_FIELD)
#undef GLEBE_FIELD
} glebe_stats;

/* The whole process's statistics as of now. */
GLEBE_API void glebe_stats_read(glebe_stats *out);
/* Writes them into `buffer` (NUL-terminated, cut at `bytes`) as a table or as one line of JSON, and returns the
 * length of the whole, as snprintf does. */
GLEBE_API size_t glebe_stats_text(char *buffer, size_t bytes);
GLEBE_API size_t glebe_stats_json(char *buffer, size_t bytes);

/* What a reader outside the process finds (symbol `glebe_live`); the names are in `glebe_live_names`, each ended by
 * a NUL, the list by an empty one. */
#define GLEBE_LIVE_MAGIC UINT64_C(0x676c6562654c4956)
struct glebe_live {
    uint64_t magic, version, size_bytes, count;
    glebe_stats stats;
};
GLEBE_API extern struct glebe_live glebe_live;
GLEBE_API extern const char glebe_live_names[];

/* ---- Checking ---------------------------------------------------------------------------------------------------- */

/* Called once for each broken invariant (docs/invariants.md numbers them) with the address that it was found at. */
typedef void glebe_check_report(void *context, int invariant, const void *address, const char *what);
/* Walks everything that the heap (NULL: every heap and the arena) owns and returns the number of broken invariants:
 * 0 is well. Level 1 checks the tables, 2 every free list too. Allocates nothing. All threads that use what is
 * walked must be at rest; in a child of fork, a heap of glebe_heap_create that another thread used at the fork is
 * not. `report` may be NULL. */
GLEBE_API int glebe_check(glebe_heap *heap, int level, glebe_check_report *report, void *context);
/* The same of a collector's pages and marks, between collections. */
GLEBE_API int glebe_gc_check(glebe_gc *gc, glebe_check_report *report, void *context);
/* The same of a pool: every object is free or in use, once. glebe_check of its heap does it at level 2. It must not
 * be read meanwhile. */
GLEBE_API int glebe_pool_check(glebe_pool *pool, glebe_check_report *report, void *context);

#ifdef __cplusplus
}
#endif
#endif
