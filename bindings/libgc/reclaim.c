/* What programs are asked and told about objects before their memory is reused: disclaim procedures of kinds, toggle
 * references, and leaks.
 *
 *     threads      run  | stopped                                  | run, without the lock                     | run
 *     collection        | mark    traced: from all   finalizers    | marked: disclaim, leaks, toggles | sweep  |
 *
 * 1. Disclaim procedures run while the program's threads do, as in bdwgc: they may take a mutex of the program. The
 *    lock is held, so nothing is allocated but from caches, and only a hidden address brings an unmarked object back.
 * 2. An object that its procedure keeps is marked, with all that it refers to.
 * 3. Toggle references are malloc's memory, which is not scanned: strong ones are roots, weak ones just an address. */
#include "libgc.h"

#include <stdlib.h>

/* ---- disclaim procedures ---- */

enum { DISCLAIMS = 256, KINDS_BUILT_IN = 4 };
typedef int GC_disclaim_proc(void *object);
static struct disclaim {
    GC_disclaim_proc *function;
    uintptr_t layout;
    bool mark_from_all; /* what an object of the kind refers to stays as long as it does */
} disclaims[DISCLAIMS];
static unsigned disclaims_count;
static GC_disclaim_proc *disclaim_now; /* of the kind that is looked at */

EXPORT void GC_register_disclaim_proc(int kind, GC_disclaim_proc *function, int mark_from_all)
{
    if (kind < KINDS_BUILT_IN) {
        libgc_warn("GC_register_disclaim_proc: kind %lu is not one of GC_new_kind's, and gets none\n", (GC_word)kind);
        return;
    }
    uintptr_t layout = libgc_kind(kind);
    libgc_enter();
    unsigned i = 0;
    while (i < disclaims_count && disclaims[i].layout != layout)
        i++;
    if (layout && i < DISCLAIMS) {
        disclaims[i] = (struct disclaim){function, layout, mark_from_all != 0};
        disclaims_count += i == disclaims_count;
    }
    libgc_leave();
}

static void disclaim_mark(glebe_gc *gc, uintptr_t object) { gb_mark_object(gc, object, false); }

static void disclaim_ask(glebe_gc *gc, uintptr_t object)
{
    if (disclaim_now((void *)object))
        gb_mark_object(gc, object, true);
}

void libgc_traced(glebe_gc *gc)
{
    for (unsigned i = 0; i < disclaims_count && !GC_find_leak; i++)
        if (disclaims[i].function && disclaims[i].mark_from_all)
            gb_each_unmarked(gc, disclaims[i].layout, disclaim_mark);
}

/* ---- leaks ---- */

enum { LEAKS_NAMED = 40 };
static size_t leaks, leaked_bytes;

static void leak_tell(void *context, void *object, size_t bytes)
{
    if (glebe_gc_marked(context, object))
        return;
    if (leaks++ < LEAKS_NAMED)
        GC_err_printf("Leaked %s object at %p (size %lu)\n",
            glebe_gc_layout_of(context, object) == GB_PLAIN ? "atomic" : "composite", object, (GC_word)bytes);
    leaked_bytes += bytes;
}

/* The sweep frees them. */
static void leaks_tell(glebe_gc *gc)
{
    leaks = leaked_bytes = 0;
    glebe_gc_each(gc, leak_tell, gc);
    if (leaks)
        GC_err_printf(
            "Found %lu leaked objects: %lu bytes, which are free now\n", (GC_word)leaks, (GC_word)leaked_bytes);
}

/* ---- toggle references ---- */

enum { TOGGLE_DROP, TOGGLE_STRONG, TOGGLE_WEAK };
typedef int GC_toggleref_func(void *object);
static GC_toggleref_func *toggle_function;
static struct toggle {
    void *object;
    bool strong;
} *toggles;
static size_t toggles_count, toggles_room;

EXPORT void GC_set_toggleref_func(GC_toggleref_func *function)
{
    libgc_enter();
    toggle_function = function;
    libgc_leave();
}

EXPORT GC_toggleref_func *GC_get_toggleref_func(void) { return toggle_function; }

EXPORT int GC_toggleref_add(void *object, int is_strong)
{
    int result = GC_SUCCESS;
    libgc_enter();
    if (toggle_function && toggles_count == toggles_room) {
        size_t room = toggles_room ? 2 * toggles_room : 32;
        struct toggle *more = realloc(toggles, room * sizeof *more);
        if (more) {
            toggles = more;
            toggles_room = room;
        } else
            result = GC_NO_MEMORY;
    }
    if (toggle_function && result == GC_SUCCESS)
        toggles[toggles_count++] = (struct toggle){object, is_strong != 0};
    libgc_leave();
    return result;
}

/* The program's function may add further ones: they are asked too. */
void libgc_toggles_ask(void)
{
    size_t kept = 0;
    if (!toggle_function)
        return;
    for (size_t i = 0; i < toggles_count; i++) {
        void *object = toggles[i].object;
        int status = toggle_function(object);
        if (status != TOGGLE_DROP)
            toggles[kept++] = (struct toggle){object, status == TOGGLE_STRONG};
    }
    toggles_count = kept;
}

void libgc_toggles_mark(glebe_gc *gc)
{
    for (size_t i = 0; i < toggles_count; i++)
        if (toggles[i].strong)
            glebe_gc_mark_object(gc, toggles[i].object);
}

static void toggles_clear(const glebe_gc *gc)
{
    size_t kept = 0;
    for (size_t i = 0; i < toggles_count; i++)
        if (glebe_gc_marked(gc, toggles[i].object))
            toggles[kept++] = toggles[i];
    toggles_count = kept;
}

/* ---- */

void libgc_marked(glebe_gc *gc)
{
    if (GC_find_leak)
        leaks_tell(gc);
    for (unsigned i = 0; i < disclaims_count && !GC_find_leak; i++)
        if ((disclaim_now = disclaims[i].function) != NULL)
            gb_each_unmarked(gc, disclaims[i].layout, disclaim_ask);
    toggles_clear(gc);
}
