/* Finalizers, and weak references to objects that a collection finds unreachable. Between marking and sweeping:
 *
 *     1  weak references to unmarked objects are cleared
 *     2  from each unmarked object with a finalizer, all objects that it refers to are marked, but not the object. So
 *        objects to which others with finalizers refer become marked; those in a cycle are never finalized. On hosts a
 *        finalizer may ask for another order (glebe_gc_order)
 *     3  objects with finalizers that are still unmarked are ready, and then marked too
 *     4  late weak references to objects that are still unmarked are cleared
 *
 * A finalizer stays in the table until it has returned:
 *
 *     set --> ready --> running --> gone       ready, running: the object is a root
 *      ^________|_________|                    set again: it is ready when the object is found unreachable again
 *
 * So a finalizer becomes ready without new memory, of which there may be none then. If a finalizer does not return
 * (longjmp), its object counts as running: it stays until glebe_gc_free frees it. */

#include "gc.h"

enum { FINAL_TRIED = 0x80 }; /* in `order`: of GLEBE_GC_LAST, ready unless another object that is ready refers to it */

static gb_final *final_of(const glebe_gc *gc, uintptr_t object)
{
    return gb_table_find(&gc->finals, sizeof(gb_final), object);
}

/* Makes the finalizer not ready. */
static void final_unready(glebe_gc *gc, gb_final *final)
{
    gc->ready -= final->ready;
    final->ready = false;
}

static void final_remove(glebe_gc *gc, gb_final *final)
{
    final_unready(gc, final);
    gb_table_remove(&gc->finals, sizeof *final, final);
}

static void final_drop(glebe_gc *gc, gb_final *final)
{
    final_remove(gc, final);
    gb_table_fit(gc, &gc->finals, sizeof *final);
}

int gb_finalizer_set(glebe_gc *gc, void *object, glebe_gc_final *function, void *context, void **before)
{
    size_t bytes;
    *before = NULL;
    if (!object || gb_object_bounds(gc, (uintptr_t)object, &bytes) != (uintptr_t)object)
        return EINVAL;
    gb_final *final = function ? gb_table_add(gc, &gc->finals, sizeof *final, (uintptr_t)object)
                               : final_of(gc, (uintptr_t)object);
    if (!final)
        return function ? ENOMEM : 0;
    *before = final->context;
    final_unready(gc, final);
    final->function = function;
    final->context = context;
    final->order = 0;
    if (!function && !final->running)
        final_drop(gc, final);
    return 0;
}

int glebe_gc_finalizer(glebe_gc *gc, void *object, glebe_gc_final *function, void *context)
{
    GB_ENTRY;
    void *before;
    return gb_finalizer_set(gc, object, function, context, &before);
}

void gb_finalizer_order(glebe_gc *gc, void *object, unsigned order)
{
    gb_final *final = final_of(gc, (uintptr_t)object);
    if (final)
        final->order = (uint8_t)order;
}

glebe_gc_final *gb_finalizer_of(const glebe_gc *gc, const void *object)
{
    const gb_final *final = final_of(gc, (uintptr_t)object);
    return final ? final->function : NULL;
}

/* The search continues where the last one ended, so finding all ready finalizers takes a few passes through the table.
 * Its long steps leave the remaining items spread over the table: neighbours would collide when the table shrinks. */
gb_final *gb_ready_take(glebe_gc *gc)
{
    if (gc->ready == 0)
        return NULL;
    for (;; gc->ready_at += 0x9e3779b1u) {
        gb_final *final = (gb_final *)gc->finals.items + (gc->ready_at &= gc->finals.room - 1);
        if (final->object && final->ready) {
            final_unready(gc, final);
            return final;
        }
    }
}

gb_final gb_final_begin(gb_final *final)
{
    gb_final taken = *final;
    final->function = NULL;
    final->context = NULL;
    final->running++;
    return taken;
}

void gb_final_end(glebe_gc *gc, uintptr_t object)
{
    gb_final *final = final_of(gc, object); /* the call may have moved or removed it */
    if (final && final->running && --final->running == 0 && !final->function)
        final_drop(gc, final);
}

size_t glebe_gc_finalize(glebe_gc *gc)
{
    GB_ENTRY;
    size_t run = 0;
    for (gb_final *final; !gc->forced && (final = gb_ready_take(gc)) != NULL; run++) {
        gb_final taken = gb_final_begin(final);
        taken.function((void *)~taken.object, taken.context);
        gb_final_end(gc, ~taken.object);
    }
    return run;
}

/* ---- weak references ---- */

int gb_weak_add(glebe_gc *gc, void **slot, bool late)
{
    size_t bytes;
    if (!slot || (uintptr_t)slot % sizeof(void *) || gb_object_bounds(gc, (uintptr_t)slot, &bytes))
        return EINVAL;
    gb_weak *weak = gb_table_add(gc, &gc->weak, sizeof *weak, (uintptr_t)slot);
    if (!weak)
        return ENOMEM;
    weak->late = late && (weak->times == 0 || weak->late);
    weak->times++;
    return 0;
}

int glebe_gc_weak_add(glebe_gc *gc, void **slot)
{
    GB_ENTRY;
    return gb_weak_add(gc, slot, false);
}

int glebe_gc_weak_remove(glebe_gc *gc, void **slot)
{
    GB_ENTRY;
    gb_weak *weak = gb_table_find(&gc->weak, sizeof *weak, (uintptr_t)slot);
    if (!weak)
        return ENOENT;
    if (--weak->times == 0) {
        gb_table_remove(&gc->weak, sizeof *weak, weak);
        gb_table_fit(gc, &gc->weak, sizeof *weak);
    }
    return 0;
}

/* Clears the weak references to the object. If `object` is 0, clears those to all unmarked objects that are late, or
 * that are not. */
static void weak_clear(glebe_gc *gc, uintptr_t object, size_t bytes, bool late)
{
    if (gc->weak.count == 0)
        return;
    gb_weak *weak = gc->weak.items, *end = weak + gc->weak.room;
    while (gc->weak.count && weak < end) {
        void **slot = (void **)~weak->slot;
        if (weak->slot && *slot
            && (object ? (uintptr_t)*slot - object < bytes
                       : weak->late == late && !gb_object_marked(gc, (uintptr_t)*slot))) {
            *slot = NULL;
            gb_table_remove(&gc->weak, sizeof *weak, weak); /* another item may have moved into its place */
        } else
            weak++;
    }
}

void gb_object_forget(glebe_gc *gc, uintptr_t object, size_t bytes)
{
    gb_final *final = GB_FINALIZERS ? final_of(gc, object) : NULL;
    if (final)
        /* the table keeps its length: shrinking allocates, which may call the program, which could collect the object
         * being freed */
        final_remove(gc, final);
    if (GB_WEAK)
        weak_clear(gc, object, bytes, false);
    if (GB_RUNTIMES)
        gb_pin_forget(gc, object);
}

/* ---- in a collection ---- */

GB_NOINLINE void gb_ready_mark(glebe_gc *gc)
{
    if (!GB_FINALIZERS || gc->finals.count == 0)
        return;
    const gb_final *final = gc->finals.items;
    gb_batch batch;
    batch.count = 0;
    for (const gb_final *end = final + gc->finals.room; final < end; final++) {
        if (final->object && (final->ready || final->running) && !(GB_RUNTIMES && final->order & FINAL_TRIED))
            gb_batch_add(gc, &batch, ~final->object);
        if (GB_RUNTIMES && final->object && final->order & GLEBE_GC_ROOTS_CONTEXT)
            gb_batch_add(gc, &batch, (uintptr_t)final->context);
    }
    if (GB_RUNTIMES)
        gb_batch_mark(gc, &batch);
}

/* Marks what the words of the object refer to, but for the object itself. */
static void final_mark_others(glebe_gc *gc, uintptr_t object)
{
    size_t bytes;
    gb_object_bounds(gc, object, &bytes);
    if (gb_object_layout(gc, object) == GB_PLAIN)
        return;
    for (uintptr_t at = object; at < object + bytes; at += sizeof at)
        if (*(const uintptr_t __attribute__((may_alias)) *)at - object >= bytes)
            gb_mark_range(gc, at, at + sizeof at);
}

/* Marks what must stay alive, and unmarked objects wait for, before this finalizer runs. */
static void final_mark(glebe_gc *gc, const gb_final *final)
{
    switch (GB_RUNTIMES ? final->order & GLEBE_GC_ORDERS : GLEBE_GC_ORDERED) {
    case GLEBE_GC_UNORDERED:
        break;
    case GLEBE_GC_IGNORES_SELF:
        final_mark_others(gc, ~final->object);
        break;
    default:
        gb_mark_object(gc, ~final->object, false);
    }
}

/* Finalizers of GLEBE_GC_LAST stay ready only if no other object that is ready refers to theirs. All those are marked
 * by now. */
static void finals_finish_last(glebe_gc *gc, gb_final *start, const gb_final *end)
{
    for (gb_final *final = start; final < end; final++) {
        if (!final->object || !(final->order & FINAL_TRIED))
            continue;
        final->order &= (uint8_t)~FINAL_TRIED;
        if (gb_object_marked(gc, ~final->object))
            final_unready(gc, final);
        else
            gb_mark_object(gc, ~final->object, true);
    }
}

static bool final_in_order(const gb_final *final) { return (final->order & GLEBE_GC_ORDERS) != GLEBE_GC_UNORDERED; }

/* Returns the bytes of the unmarked objects, from `final` on, whose finalizers have an order. One that waits for
 * another is marked soon; but nothing that lives refers to it: a later collection frees it, unless it is in a cycle. */
static size_t finals_behind(const glebe_gc *gc, const gb_final *final, const gb_final *end)
{
    size_t all = 0, bytes;
    for (; final < end; final++)
        if (final->object && final_in_order(final) && !gb_object_marked(gc, ~final->object)
            && gb_object_bounds(gc, ~final->object, &bytes))
            all += bytes;
    return all;
}

static void finals_finish(glebe_gc *gc)
{
    if (GB_RUNTIMES)
        gc->ready_bytes = gc->behind_bytes = 0;
    if (!GB_FINALIZERS || gc->finals.count == 0)
        return;
    gb_final *final, *start = gc->finals.items, *end = start + gc->finals.room;
    for (final = start; final < end; final++)
        if (final->object && !gb_object_marked(gc, ~final->object)) {
            if (GB_RUNTIMES && gc->behind_bytes == 0 && final_in_order(final))
                gc->behind_bytes = finals_behind(gc, final, end); /* once: it counts this one */
            final_mark(gc, final);
        }
    for (final = start; final < end; final++) {
        size_t bytes = 0;
        bool now = final->object && !gb_object_marked(gc, ~final->object);
        if (now) {
            final->ready = true;
            gc->ready++;
            if (GB_RUNTIMES && (final->order & GLEBE_GC_ORDERS) == GLEBE_GC_LAST)
                final->order |= FINAL_TRIED;
        }
        if (GB_RUNTIMES && final->object && final->ready && gb_object_bounds(gc, ~final->object, &bytes)) {
            gc->ready_bytes += bytes;
            gc->behind_bytes -= now && final_in_order(final) ? bytes : 0;
        }
    }
    gb_ready_mark(gc);
    if (GB_RUNTIMES)
        finals_finish_last(gc, start, end);
}

void gb_finalize_finish(glebe_gc *gc)
{
    if (GB_WEAK)
        weak_clear(gc, 0, 0, false);
    if (GB_RUNTIMES)
        gb_links_clear(gc, false);
    finals_finish(gc);
    if (GB_WEAK > 1)
        weak_clear(gc, 0, 0, true);
    if (GB_RUNTIMES) {
        gb_links_clear(gc, true);
        gb_links_finish(gc);
    }
}
