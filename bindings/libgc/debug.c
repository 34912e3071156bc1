/* bdwgc's debugging interface. Objects of GC_debug_malloc get no header: file and line are not kept, and a write behind
 * an object is not noticed. The checks of addresses are served. */
#include "libgc.h"

#include <stdio.h>
#include <stdlib.h>

#define EXTRAS const char *file, int line
#define UNUSED_EXTRAS (void)file, (void)line

EXPORT void *GC_malloc_atomic(size_t), *GC_malloc_uncollectable(size_t), *GC_malloc_atomic_uncollectable(size_t);
EXPORT void *GC_realloc(void *, size_t), *GC_base(void *), *GC_gcj_malloc(size_t, void *);
EXPORT void *GC_generic_or_special_malloc(size_t, int);
EXPORT char *GC_strdup(const char *), *GC_strndup(const char *, size_t);

#define DEBUG_MALLOC(name, function)                                                                                   \
    EXPORT void *GC_debug_##name(size_t bytes, EXTRAS)                                                                 \
    {                                                                                                                  \
        UNUSED_EXTRAS;                                                                                                 \
        return function(bytes);                                                                                        \
    }
DEBUG_MALLOC(malloc, GC_malloc)
DEBUG_MALLOC(malloc_atomic, GC_malloc_atomic)
DEBUG_MALLOC(malloc_uncollectable, GC_malloc_uncollectable)
DEBUG_MALLOC(malloc_atomic_uncollectable, GC_malloc_atomic_uncollectable)
DEBUG_MALLOC(malloc_ignore_off_page, GC_malloc)
DEBUG_MALLOC(malloc_atomic_ignore_off_page, GC_malloc_atomic)
DEBUG_MALLOC(malloc_stubborn, GC_malloc)

EXPORT void *GC_debug_malloc_replacement(size_t bytes) { return GC_malloc(bytes); }
EXPORT void *GC_debug_realloc_replacement(void *object, size_t bytes) { return GC_realloc(object, bytes); }
EXPORT void *GC_debug_realloc(void *object, size_t bytes, EXTRAS)
{
    UNUSED_EXTRAS;
    return GC_realloc(object, bytes);
}
EXPORT char *GC_debug_strdup(const char *text, EXTRAS)
{
    UNUSED_EXTRAS;
    return GC_strdup(text);
}
EXPORT char *GC_debug_strndup(const char *text, size_t bytes, EXTRAS)
{
    UNUSED_EXTRAS;
    return GC_strndup(text, bytes);
}
EXPORT void *GC_debug_gcj_malloc(size_t bytes, void *table, EXTRAS)
{
    UNUSED_EXTRAS;
    return GC_gcj_malloc(bytes, table);
}
EXPORT void *GC_debug_generic_or_special_malloc(size_t bytes, int kind, EXTRAS)
{
    UNUSED_EXTRAS;
    return GC_generic_or_special_malloc(bytes, kind);
}
EXPORT void GC_debug_free(void *object) { GC_free(object); }
EXPORT void GC_debug_change_stubborn(const void *object) { (void)object; }
EXPORT void GC_debug_end_stubborn_change(const void *object) { (void)object; }
EXPORT size_t GC_get_debug_header_size(void) { return 0; }

EXPORT void GC_ptr_store_and_dirty(void *at, const void *value) { *(const void **)at = value; }
EXPORT void GC_debug_ptr_store_and_dirty(void *at, const void *value) { *(const void **)at = value; }
EXPORT void GC_noop1(GC_word value) { __asm__ volatile("" : : "r"(value) : "memory"); }

/* ---- checks of addresses ---- */

static void same_obj_default(void *p, void *q)
{
    fprintf(stderr, "glebe: GC_same_obj: %p and %p are not in the same object\n", p, q);
    abort();
}
static void displacement_default(void *p)
{
    fprintf(stderr, "glebe: GC_is_valid_displacement: %p does not point into an object\n", p);
    abort();
}
static void visible_default(void *p)
{
    fprintf(stderr, "glebe: GC_is_visible: %p is not in memory that the collector scans\n", p);
    abort();
}
EXPORT void (*GC_same_obj_print_proc)(void *, void *) = same_obj_default;
EXPORT void (*GC_is_valid_displacement_print_proc)(void *) = displacement_default;
EXPORT void (*GC_is_visible_print_proc)(void *) = visible_default;

EXPORT void *GC_same_obj(void *p, void *q)
{
    void *base = GC_base(p), *other = GC_base(q);
    if (base != other && (base || other))
        GC_same_obj_print_proc(p, q);
    return p;
}

EXPORT void *GC_is_valid_displacement(void *p) { return p; } /* every address inside an object is one */

EXPORT void *GC_is_visible(void *p)
{
    if (!libgc_gc)
        GC_init();
    libgc_enter();
    void *base = glebe_gc_base(libgc_gc, p);
    bool seen = (uintptr_t)p % sizeof(void *) == 0
        && (base ? glebe_gc_layout_of(libgc_gc, base) != GB_PLAIN : libgc_on_stack(p) || libgc_roots_have(p));
    libgc_leave();
    if (!seen)
        GC_is_visible_print_proc(p);
    return p;
}

EXPORT void *GC_pre_incr(void **p, ptrdiff_t bytes)
{
    void *before = *p;
    return *p = GC_same_obj((char *)before + bytes, before);
}

EXPORT void *GC_post_incr(void **p, ptrdiff_t bytes)
{
    void *before = *p;
    *p = GC_same_obj((char *)before + bytes, before);
    return before;
}

/* ---- a walk ---- */

typedef struct walk {
    void (*visit)(void *object, size_t bytes, void *data);
    void *data;
} walk;

static void walk_visit(void *context, void *object, size_t bytes)
{
    const walk *to = context;
    to->visit(object, bytes, to->data);
}

/* The caller holds the lock. Objects that became unreachable since the last collection are visited too. */
EXPORT void GC_enumerate_reachable_objects_inner(void (*visit)(void *object, size_t bytes, void *data), void *data)
{
    walk to = {visit, data};
    glebe_gc_each(libgc_gc, walk_visit, &to);
}
