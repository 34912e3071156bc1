//go:build tinygo && gc.custom && custommalloc && tinygo.wasm

/* The core for TinyGo, compiled to bitcode together with the package. Its collector and its malloc share one heap. What the Go side
 * calls is named glebe_go_; the rest is the malloc family, for C in the same module.
 *
 * Asyncify instruments whatever might suspend, and an indirect call might: so there is none between an allocation and the marks.
 * The collector's state lies among the globals, at an address that the compiler knows. */
#define GB_CALLBACKS 0
#define GB_IS_MALLOC 1
#include "../../src/glebe.c"

static glebe_gc go_gc;

/* TinyGo passes Go functions a context behind their arguments; these have none. */
void *glebe_go_alloc_slow(size_t bytes, uintptr_t layout);
void *glebe_go_alloc(size_t bytes, uintptr_t layout, void *context) __asm__("runtime.alloc");

/* The first allocation comes before C constructors and package inits: all zero is what there is, and it comes here. */
static GB_NOINLINE void *go_alloc_slow(size_t bytes, uintptr_t layout)
{
    if (!go_gc.heap && !gb_collector_begin(&go_gc, gb_thread_start()))
        return glebe_go_alloc_slow(bytes, layout);
    void *object = object_new_slow(&go_gc, bytes, layout);
    return object ? object : glebe_go_alloc_slow(bytes, layout);
}

GB_NOINLINE void *glebe_go_alloc(size_t bytes, uintptr_t layout, void *context)
{
    (void)context;
    void *object = gb_object_recent(&go_gc, bytes, layout);
    return GB_LIKELY(object) ? object : go_alloc_slow(bytes, layout);
}

/* Where no collection is due, or one was just now: memory may grow. */
void *glebe_go_alloc_growing(size_t bytes, uintptr_t layout)
{
    return go_gc.heap ? gb_object_new_growing(&go_gc, bytes, layout) : NULL;
}

bool glebe_go_due(void)
{
    return go_gc.due;
}

void glebe_go_begin(void)
{
    glebe_gc_begin(&go_gc);
}

/* Roots are what lies in [start, end), but for our own state: counts of bytes and rows of
 * tables look like addresses in a memory that begins at 0. */
void glebe_go_mark(uintptr_t start, uintptr_t end)
{
#define OWN(object) {(uintptr_t)&(object), (uintptr_t)(&(object) + 1)}
    static const gb_root own[] = {OWN(go_gc), OWN(gb_the), OWN(gb_heap_main), OWN(glebe_live), OWN(gb_classes), OWN(gb_class_small), OWN(gb_class_medium)};
    while (start < end) {
        gb_root next = {end, end};
        for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
            if (own[i].from >= start && own[i].from < next.from)
                next = own[i];
        gb_mark_range(&go_gc, start, next.from);
        start = next.to;
    }
}

void glebe_go_finish(void)
{
    glebe_gc_finish(&go_gc);
}

void glebe_go_free(void *object)
{
    if (object)
        glebe_gc_free(&go_gc, object);
}

void glebe_go_pace(unsigned percent, size_t least_bytes, unsigned every)
{
    if (go_gc.heap || gb_collector_begin(&go_gc, gb_thread_start()))
        glebe_gc_pace(&go_gc, percent, least_bytes, every);
}

int glebe_go_limit(size_t bytes)
{
    return glebe_heap_limit(gb_thread_start(), bytes);
}

void glebe_go_stats(glebe_gc_stats *collector, glebe_stats *all)
{
    glebe_stats_read(all);
    memset(collector, 0, sizeof *collector);
    if (go_gc.heap)
        glebe_gc_stats_read(&go_gc, collector);
}

/* `context` is what comes back from glebe_go_ready when the object is found unreachable; NULL: nothing does. *before is what would have
 * come back until now, or NULL. false: it is no object, or there is no memory. */
static void go_final(void *object, void *context)
{
    (void)object;
    (void)context;
}

bool glebe_go_finalizer(void *object, void *context, void **before)
{
    return gb_finalizer_set(&go_gc, object, context ? go_final : NULL, context, before) == 0;
}

/* The next object whose finalizer is to run, and its context in *context; NULL if there is none. */
void *glebe_go_ready(void **context)
{
    if (go_gc.ready.count == 0)
        return NULL;
    gb_final final = ((gb_final *)go_gc.ready.items)[--go_gc.ready.count];
    *context = final.context;
    return (void *)~final.object;
}

/* ---- for C in the same module ---- */

void *malloc(size_t bytes) { return gb_alloc(gb_self, bytes); }
void free(void *block) { gb_free("free", gb_self, block); }
void *calloc(size_t count, size_t bytes) { return gb_calloc(gb_self, count, bytes); }
void *realloc(void *block, size_t bytes) { return glebe_realloc(block, bytes); }
void *aligned_alloc(size_t alignment, size_t bytes) { return glebe_aligned_alloc(alignment, bytes); }
int posix_memalign(void **out, size_t alignment, size_t bytes) { return glebe_posix_memalign(out, alignment, bytes); }
size_t malloc_usable_size(void *block) { return glebe_usable_size(block); }
