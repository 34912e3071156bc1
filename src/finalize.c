/* What happens to objects that are found unreachable: finalizers, weak references. Between marking and sweeping:
 *
 *     1  weak references to what is not marked are cleared
 *     2  what an unmarked object with a finalizer refers to is marked, but not the object: so of objects that refer to each other
 *        the outermost alone stay unmarked, and those in a circle stay marked, for ever
 *     3  what is still unmarked then is ready: marked too, and moved to the list that glebe_gc_finalize runs
 *
 * The tables are blocks of malloc in the collector's heap, which marking does not look at. Objects stand in them complemented, for
 * hosts where all of memory is looked at. */

#include "alloc.h"

/* Room for one item more; NULL where there is no memory for it. */
void *gb_array_push(glebe_gc *gc, gb_array *array, size_t item_bytes)
{
    if (array->count == array->room) {
        uint32_t room = array->room ? array->room * 2 : 16;
        void *items = gb_alloc(gc->heap, room * item_bytes);
        if (!items)
            return NULL;
        if (array->count)
            memcpy(items, array->items, array->count * item_bytes);
        gb_free("glebe_gc", gc->heap, array->items);
        array->items = items;
        array->room = room;
    }
    return (char *)array->items + array->count++ * item_bytes;
}

static gb_final *finals(const gb_array *array) { return array->items; }
static uintptr_t *weak_slots(const gb_array *array) { return array->items; }

int glebe_gc_finalizer(glebe_gc *gc, void *object, glebe_gc_final *function, void *context)
{
    GB_ENTRY;
    size_t bytes;
    if (!object || gb_object_bounds(gc, (uintptr_t)object, &bytes) != (uintptr_t)object)
        return EINVAL;
    gb_final *final = finals(&gc->finals), *end = final + gc->finals.count;
    while (final < end && final->object != ~(uintptr_t)object)
        final++;
    if (!function) {
        if (final < end)
            *final = finals(&gc->finals)[--gc->finals.count];
        return 0;
    }
    if (final == end && !(final = gb_array_push(gc, &gc->finals, sizeof *final)))
        return ENOMEM;
    *final = (gb_final){~(uintptr_t)object, function, context};
    return 0;
}

size_t glebe_gc_finalize(glebe_gc *gc)
{
    GB_ENTRY;
    size_t run = 0;
    while (gc->ready.count) {
        gb_final final = finals(&gc->ready)[--gc->ready.count];
        final.function((void *)~final.object, final.context);
        run++;
    }
    return run;
}

int glebe_gc_weak_add(glebe_gc *gc, void **slot)
{
    GB_ENTRY;
    uintptr_t *place = gb_array_push(gc, &gc->weak, sizeof *place);
    if (!place)
        return ENOMEM;
    *place = (uintptr_t)slot;
    return 0;
}

int glebe_gc_weak_remove(glebe_gc *gc, void **slot)
{
    GB_ENTRY;
    uintptr_t *slots = weak_slots(&gc->weak);
    for (uint32_t i = 0; i < gc->weak.count; i++)
        if (slots[i] == (uintptr_t)slot) {
            slots[i] = slots[--gc->weak.count];
            return 0;
        }
    return ENOENT;
}

/* ---- in a collection ---- */

static void weak_clear(glebe_gc *gc)
{
    uintptr_t *slots = weak_slots(&gc->weak);
    for (uint32_t i = 0; i < gc->weak.count;) {
        void **slot = (void **)slots[i];
        if (*slot && !gb_object_marked(gc, (uintptr_t)*slot)) {
            *slot = NULL;
            slots[i] = slots[--gc->weak.count];
        } else
            i++;
    }
}

void gb_finalize_begin(glebe_gc *gc)
{
    for (uint32_t i = 0; i < gc->ready.count; i++) /* not run yet */
        gb_mark_object(gc, ~finals(&gc->ready)[i].object, true);
}

/* `ready` has room for all of `finals`: gb_finalize_room made it before the collection. */
void gb_finalize_finish(glebe_gc *gc)
{
    gb_final *final = finals(&gc->finals);
    weak_clear(gc);
    if (!gc->finalizes) { /* none this time: all of them live on */
        for (uint32_t i = 0; i < gc->finals.count; i++)
            gb_mark_object(gc, ~final[i].object, true);
        return;
    }
    for (uint32_t i = 0; i < gc->finals.count; i++)
        if (!gb_object_marked(gc, ~final[i].object))
            gb_mark_object(gc, ~final[i].object, false);
    for (uint32_t i = 0; i < gc->finals.count;) {
        if (gb_object_marked(gc, ~final[i].object)) {
            i++;
            continue;
        }
        finals(&gc->ready)[gc->ready.count++] = final[i];
        final[i] = final[--gc->finals.count];
    }
    for (uint32_t i = 0; i < gc->ready.count; i++)
        gb_mark_object(gc, ~finals(&gc->ready)[i].object, true);
}

bool gb_finalize_room(glebe_gc *gc)
{
    uint32_t count = gc->ready.count, need = count + gc->finals.count;
    while (gc->ready.room < need) {
        gc->ready.count = gc->ready.room; /* push to make it grow */
        bool ok = gb_array_push(gc, &gc->ready, sizeof(gb_final)) != NULL;
        gc->ready.count = count;
        if (!ok)
            return false;
    }
    return true;
}
