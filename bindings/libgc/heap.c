/* Allocation and collection by bdwgc's names: this folder and a private copy of the core make libgc.so.1.
 *
 *     GC_malloc         a conservative object      GC_malloc_atomic       a plain one
 *     uncollectable     a pinned one               of a kind, typed       kinds.c
 *
 * The core is private, with hidden names and its own region: so the one lock here also guards everything in it, and a
 * thread that was stopped anywhere outside holds no lock that a collection needs. malloc is not replaced.
 *
 * One lock around the heap. Until the program announces threads, there is no lock at all. A registered thread takes
 * small objects from a cache of its own (cache.c in the core), and the lock only where that is empty: about once in
 * 4 KiB of objects. */
#include "libgc.h"

#include <stdlib.h>

glebe_gc *libgc_gc;
bool libgc_threads, libgc_after;
gb_lock libgc_lock;
GB_TLS unsigned libgc_depth;
GB_TLS gb_cache *libgc_cache;
int libgc_on_demand;
unsigned libgc_every;
static size_t expanded_bytes; /* by GC_expand_hp: the heap that may fill before a collection */

/* ---- collections ---- */

/* What the program's functions allocate during a collection must count as reached: no cache then. */
static void heap_listen(void *context, glebe_gc_event event, const glebe_gc_stats *stats)
{
    static gb_cache *cache;
    (void)context;
    if (event == GLEBE_GC_BEGINS) {
        cache = libgc_cache;
        libgc_cache = NULL;
        libgc_begins();
        libgc_toggles_ask();
        libgc_event(6 /* GC_EVENT_PRE_STOP_WORLD */);
        libgc_roots_stop();
        libgc_event(7 /* GC_EVENT_POST_STOP_WORLD */);
        libgc_event(1 /* GC_EVENT_MARK_START */);
    } else {
        libgc_event(4 /* GC_EVENT_RECLAIM_END */);
        libgc_ended(stats);
        libgc_limit();
        libgc_pace();
        libgc_after = libgc_gc->ready != 0;
        libgc_cache = cache;
    }
}

/* The threads need not wait for the sweep: it leaves alone what is marked, and the cells of their caches. */
static void heap_marked(glebe_gc *gc)
{
    libgc_event(2 /* GC_EVENT_MARK_END */);
    libgc_event(8 /* GC_EVENT_PRE_START_WORLD */);
    libgc_world_start();
    libgc_event(9 /* GC_EVENT_POST_START_WORLD */);
    libgc_event(3 /* GC_EVENT_RECLAIM_START */);
    libgc_marked(gc);
}

extern void (*GC_push_other_roots)(void);

static void heap_mark(void *context, glebe_gc *gc)
{
    (void)context;
    libgc_roots_mark(gc);
    libgc_toggles_mark(gc);
    libgc_world_mark(gc);
    if (GC_push_other_roots)
        GC_push_other_roots();
}

void libgc_pace(void)
{
    enum { LEAST_BYTES = 1 << 20, DIVISOR = 3, PERCENT = 90 };
    GC_word divisor = GC_free_space_divisor ? GC_free_space_divisor : DIVISOR;
    size_t live = libgc_gc->live_bytes;
    size_t least = expanded_bytes > live + LEAST_BYTES ? expanded_bytes - live : LEAST_BYTES;
    unsigned percent = divisor == DIVISOR ? PERCENT : (unsigned)(PERCENT * DIVISOR / divisor);
    if (libgc_gc->least_bytes != least || libgc_gc->percent != percent || libgc_gc->every != libgc_every)
        glebe_gc_pace(libgc_gc, percent, least, libgc_every);
}

void libgc_expand(size_t bytes)
{
    expanded_bytes += bytes;
}

EXPORT void GC_init(void)
{
    if (libgc_gc)
        return;
    glebe_gc *gc = glebe_gc_create(0);
    if (!gc) {
        libgc_warn("cannot start: no memory\n", 0);
        abort();
    }
    static const gb_hooks hooks = {libgc_traced, heap_marked};
    libgc_gc = gc;
    gc->hooks = &hooks;
    libgc_read_environment();
    libgc_set_helpers();
    libgc_world_init();
    glebe_gc_on_event(gc, heap_listen, NULL);
    glebe_gc_on_mark(gc, heap_mark, NULL);
    libgc_pace();
    if (GC_find_leak)
        atexit(GC_gcollect);
}

EXPORT int GC_is_init_called(void) { return libgc_gc != NULL; }
EXPORT void GC_deinit(void) {}

static void heap_collect(void)
{
    if (!libgc_gc)
        GC_init();
    libgc_enter();
    if (!GC_dont_gc)
        glebe_gc_collect(libgc_gc);
    libgc_leave();
    if (libgc_after)
        libgc_finalize();
}

EXPORT void GC_gcollect(void) { heap_collect(); }

EXPORT void GC_gcollect_and_unmap(void)
{
    heap_collect();
    libgc_enter();
    glebe_trim(libgc_gc->heap);
    libgc_leave();
}

/* Calls the program's function before the collection, and never during it: a collection always runs to its end. */
EXPORT int GC_try_to_collect(int (*stop)(void))
{
    if (GC_dont_gc || (stop && stop()))
        return 0;
    heap_collect();
    return 1;
}

EXPORT int GC_collect_a_little(void)
{
    if (libgc_gc && !libgc_on_demand && libgc_gc->taken_bytes >= libgc_gc->trigger_bytes)
        heap_collect();
    return 0;
}

EXPORT void GC_enable(void) { __atomic_fetch_sub(&GC_dont_gc, 1, __ATOMIC_RELAXED); }
EXPORT void GC_disable(void) { __atomic_fetch_add(&GC_dont_gc, 1, __ATOMIC_RELAXED); }
EXPORT int GC_is_disabled(void) { return GC_dont_gc != 0; }

/* ---- allocation ---- */

static GB_COLD void *heap_none(size_t bytes) { return GC_oom_fn(bytes); }

static void *heap_take(size_t bytes, uintptr_t layout)
{
    return GB_UNLIKELY(GC_dont_gc | libgc_on_demand) ? gb_object_new_growing(libgc_gc, bytes, layout)
                                                     : glebe_gc_alloc_layout(libgc_gc, bytes, layout);
}

/* Fills the row of this thread's cache. Returns NULL if the thread has none, the object is not for caches, a collection
 * is due, or there is no memory. */
static void *cache_take(size_t bytes, uintptr_t layout)
{
    if (!libgc_cache || bytes > GB_CACHED_MAX || (layout && layout != GB_PLAIN) || libgc_every)
        return NULL;
    gb_cache_row *row = gb_cache_row_of(libgc_cache, bytes, layout == GB_PLAIN);
    void *object = gb_cache_take(row);
    uint8_t grows = GC_dont_gc | libgc_on_demand ? 1 : 0;
    if (object || (object = gb_cache_next(row)) != NULL)
        return object;
    libgc_gc->forced += grows;
    bool filled = gb_cache_fill(libgc_gc, row, bytes, layout == GB_PLAIN);
    libgc_gc->forced -= grows;
    if (layout == GB_PLAIN)
        row->dirty = 0; /* bdwgc does not clear atomic objects either */
    return filled ? gb_cache_next(row) : NULL;
}

void *libgc_take(size_t bytes, uintptr_t layout, bool pinned)
{
    if (GB_UNLIKELY(!libgc_gc))
        GC_init();
    size_t padded = libgc_padded(bytes);
    libgc_enter();
    void *object = cache_take(padded, layout);
    if (!object)
        object = heap_take(padded, layout);
    if (GB_UNLIKELY(pinned) && object) {
        if (glebe_gc_pin(libgc_gc, object))
            object = NULL;
        else
            GC_non_gc_bytes += bytes;
    }
    libgc_leave();
    if (GB_UNLIKELY(!object))
        return heap_none(bytes);
    if (GB_UNLIKELY(libgc_after))
        libgc_finalize();
    return object;
}

static GB_NOINLINE void *small_take_slow(size_t bytes, bool plain)
{
    void *object = libgc_cache ? gb_cache_next(gb_cache_row_of(libgc_cache, libgc_padded(bytes), plain)) : NULL;
    return object ? object : libgc_take(bytes, plain ? GB_PLAIN : 0, false);
}

GB_INLINE void *small_take(size_t bytes, bool plain)
{
    gb_cache *cache = libgc_cache;
    if (GB_UNLIKELY(bytes >= GB_CACHED_MAX || !cache))
        return libgc_take(bytes, plain ? GB_PLAIN : 0, false);
    void *object = gb_cache_take(gb_cache_row_of(cache, bytes + (GC_all_interior_pointers != 0), plain));
    return GB_LIKELY(object) ? object : small_take_slow(bytes, plain);
}

EXPORT void *GC_malloc(size_t bytes) { return small_take(bytes, false); }
EXPORT void *GC_malloc_atomic(size_t bytes) { return small_take(bytes, true); }
EXPORT void *GC_malloc_uncollectable(size_t bytes) { return libgc_take(bytes, 0, true); }
EXPORT void *GC_malloc_atomic_uncollectable(size_t bytes) { return libgc_take(bytes, GB_PLAIN, true); }
/* An address anywhere in the object keeps it, which is more than asked. */
EXPORT void *GC_malloc_ignore_off_page(size_t bytes) { return libgc_take(bytes, 0, false); }
EXPORT void *GC_malloc_atomic_ignore_off_page(size_t bytes) { return libgc_take(bytes, GB_PLAIN, false); }
EXPORT void *GC_malloc_stubborn(size_t bytes) { return libgc_take(bytes, 0, false); }
EXPORT void GC_change_stubborn(const void *object) { (void)object; }
EXPORT void GC_end_stubborn_change(const void *object) { (void)object; }

EXPORT void *GC_generic_malloc(size_t bytes, int kind)
{
    if (kind == 0 || kind == 1)
        return small_take(bytes, kind == 0);
    return libgc_take(bytes, libgc_kind(kind), kind == 2 || kind == 3);
}
EXPORT void *GC_generic_malloc_ignore_off_page(size_t bytes, int kind) { return GC_generic_malloc(bytes, kind); }
EXPORT void *GC_generic_or_special_malloc(size_t bytes, int kind) { return GC_generic_malloc(bytes, kind); }
EXPORT void *GC_malloc_kind(size_t bytes, int kind) { return GC_generic_malloc(bytes, kind); }
EXPORT void *GC_malloc_kind_global(size_t bytes, int kind) { return GC_generic_malloc(bytes, kind); }
EXPORT void *GC_generic_malloc_uncollectable(size_t bytes, int kind)
{
    return libgc_take(bytes, libgc_kind(kind), true);
}

/* A list of new objects, linked through their first words. Only the first may collect: the list of plain objects is
 * not traced. The caller says how many bytes an object has, so no byte is added. */
EXPORT void GC_generic_malloc_many(size_t bytes, int kind, void **result)
{
    enum { BATCH_BYTES = 4096 };
    uintptr_t layout = libgc_kind(kind);
    if (!libgc_gc)
        GC_init();
    bytes = bytes < sizeof(void *) ? sizeof(void *) : bytes;
    libgc_enter();
    void **first = heap_take(bytes, layout), **last = first, **next;
    for (size_t taken = bytes; first && taken < BATCH_BYTES; taken += bytes, last = next) {
        next = gb_object_new(libgc_gc, bytes, layout);
        *last = next;
        if (!next)
            break; /* a collection is due: the next call does it */
    }
    *result = first;
    libgc_leave();
    if (libgc_after)
        libgc_finalize();
}

EXPORT void *GC_malloc_many(size_t bytes)
{
    void *result;
    GC_generic_malloc_many(libgc_padded(bytes), 1, &result);
    return result;
}

/* Returns an address inside an object that is larger by the alignment. */
EXPORT void *GC_memalign(size_t alignment, size_t bytes)
{
    if (alignment <= 16)
        return GC_malloc(bytes);
    if (!gb_is_pow2(alignment) || bytes > SIZE_MAX - alignment)
        return heap_none(bytes);
    char *object = GC_malloc(bytes + alignment);
    return object ? (void *)gb_round_up((uintptr_t)object, alignment) : NULL;
}

EXPORT int GC_posix_memalign(void **result, size_t alignment, size_t bytes)
{
    if (alignment < sizeof(void *) || !gb_is_pow2(alignment))
        return EINVAL;
    void *object = GC_memalign(alignment, bytes);
    if (!object)
        return ENOMEM;
    *result = object;
    return 0;
}

EXPORT char *GC_strndup(const char *text, size_t most)
{
    size_t bytes = strnlen(text, most);
    char *copy = GC_malloc_atomic(bytes + 1);
    if (copy) {
        memcpy(copy, text, bytes);
        copy[bytes] = '\0';
    }
    return copy;
}

EXPORT char *GC_strdup(const char *text) { return text ? GC_strndup(text, SIZE_MAX) : NULL; }

/* ---- free and resize ---- */

static void heap_free(void *object)
{
    void *base = glebe_gc_base(libgc_gc, object);
    if (base && GB_UNLIKELY(libgc_gc->pins.count) && glebe_gc_pinned(libgc_gc, base)) {
        size_t bytes = glebe_gc_usable_size(libgc_gc, base);
        GC_non_gc_bytes -= bytes < GC_non_gc_bytes ? bytes : GC_non_gc_bytes;
    }
    glebe_gc_free(libgc_gc, base ? base : object); /* reports what is no object */
}

EXPORT void GC_free(void *object)
{
    if (!object || !libgc_gc)
        return;
    libgc_enter();
    heap_free(object);
    libgc_leave();
}

EXPORT void *GC_realloc(void *old, size_t bytes)
{
    if (!old)
        return GC_malloc(bytes);
    if (!bytes) {
        GC_free(old);
        return NULL;
    }
    libgc_enter();
    char *base = glebe_gc_base(libgc_gc, old);
    size_t before = glebe_gc_usable_size(libgc_gc, old);
    uintptr_t layout = base ? glebe_gc_layout_of(libgc_gc, base) : 0;
    bool pinned = base && glebe_gc_pinned(libgc_gc, base);
    libgc_leave();
    before -= base ? (size_t)((char *)old - base) : 0;
    size_t padded = libgc_padded(bytes);
    if (padded <= before && padded >= before / 2) {
        if (layout != GB_PLAIN)
            memset((char *)old + bytes, 0, before - bytes); /* it must be zero if the object grows again */
        return old;
    }
    void *object = libgc_take(bytes, layout, pinned);
    if (!object)
        return NULL;
    memcpy(object, old, before < bytes ? before : bytes);
    GC_free(old); /* reports an `old` that is no object */
    return object;
}

/* ---- addresses ---- */

EXPORT void *GC_base(void *address)
{
    if (!libgc_gc)
        return NULL;
    libgc_enter();
    void *base = glebe_gc_base(libgc_gc, address);
    libgc_leave();
    return base;
}

EXPORT int GC_is_heap_ptr(const void *address) { return GC_base((void *)(uintptr_t)address) != NULL; }

EXPORT size_t GC_size(const void *object)
{
    libgc_enter();
    size_t bytes = glebe_gc_usable_size(libgc_gc, object);
    libgc_leave();
    return bytes;
}

EXPORT int GC_get_kind_and_size(const void *object, size_t *bytes)
{
    libgc_enter();
    if (bytes)
        *bytes = glebe_gc_usable_size(libgc_gc, object);
    int kind = libgc_kind_number(libgc_gc, object);
    libgc_leave();
    return kind;
}

/* ---- the lock ---- */

EXPORT void GC_alloc_lock(void) { libgc_enter(); }
EXPORT void GC_alloc_unlock(void) { libgc_leave(); }

EXPORT void *GC_call_with_alloc_lock(GC_fn_type *function, void *data)
{
    libgc_enter();
    void *result = function(data);
    libgc_leave();
    return result;
}
