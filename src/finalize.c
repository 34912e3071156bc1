/* What happens to objects that are found unreachable: finalizers, weak references. Between marking and sweeping:
 *
 *     1  weak references to what is not marked are cleared
 *     2  what an unmarked object with a finalizer refers to is marked, but not the object: so of objects that refer to each other
 *        the outermost alone stay unmarked, and those in a circle stay marked, for ever
 *     3  what is still unmarked then is ready: marked too, and moved to the list that glebe_gc_finalize runs
 *
 * Finalizers are found by their object, in a hash table. All tables are blocks of malloc in the collector's heap, which marking does not
 * look at. Objects stand in them complemented, for hosts where all of memory is looked at. */

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

/* ---- the table of finalizers ----
 * Open addressing by the object's address, linear probing; an entry that goes is filled by those behind it that want to be nearer to
 * their own place, so there are no tombstones. Half of it is empty at least. 0 stands for no object, for the table is zeroed. */

enum { FINALS_LEAST = 16 };

static uint32_t final_home(const gb_array *table, uintptr_t object)
{
    return (uint32_t)((object >> 4) * 0x9e3779b1u) >> (32 - gb_ctz32(table->room));
}

/* The object's entry, or the empty one where it would be. The table is not empty of room. */
static gb_final *final_find(const gb_array *table, uintptr_t object)
{
    uint32_t i = final_home(table, object);
    while (finals(table)[i].object && finals(table)[i].object != ~object) {
        GB_PROBED();
        i = (i + 1) & (table->room - 1);
    }
    return finals(table) + i;
}

static void final_remove(gb_array *table, gb_final *final)
{
    gb_final *items = finals(table);
    uint32_t mask = table->room - 1, hole = (uint32_t)(final - items);
    for (uint32_t i = (hole + 1) & mask; items[i].object; i = (i + 1) & mask) {
        GB_PROBED();
        if (((i - final_home(table, ~items[i].object)) & mask) >= ((i - hole) & mask)) { /* its place is the hole, or before it */
            items[hole] = items[i];
            hole = i;
        }
    }
    items[hole].object = 0;
    table->count--;
}

/* Room for one more, by a table twice as long; or one that fits, where it has become far too long. */
static bool finals_room(glebe_gc *gc)
{
    gb_array old = gc->finals, fresh = {NULL, old.count, FINALS_LEAST};
    while (fresh.room < 2 * (old.count + 1))
        fresh.room *= 2;
    if (old.room >= fresh.room && old.room <= 8 * fresh.room)
        return true;
    fresh.items = gb_calloc(gc->heap, fresh.room, sizeof(gb_final));
    if (!fresh.items)
        return old.room > fresh.room;
    for (gb_final *final = finals(&old), *end = final + old.room; final < end; final++)
        if (final->object)
            *final_find(&fresh, ~final->object) = *final;
    gb_free("glebe_gc", gc->heap, old.items);
    gc->finals = fresh;
    return true;
}

bool gb_finals_well(const glebe_gc *gc)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < gc->finals.room; i++) {
        const gb_final *final = finals(&gc->finals) + i;
        count += final->object != 0;
        if (final->object && final_find(&gc->finals, ~final->object) != final)
            return false;
    }
    return count == gc->finals.count;
}

int gb_finalizer_set(glebe_gc *gc, void *object, glebe_gc_final *function, void *context, void **before)
{
    size_t bytes;
    *before = NULL;
    if (!object || gb_object_bounds(gc, (uintptr_t)object, &bytes) != (uintptr_t)object)
        return EINVAL;
    gb_final *final = gc->finals.count ? final_find(&gc->finals, (uintptr_t)object) : NULL;
    bool known = final && final->object;
    if (known)
        *before = final->context;
    if (!function) {
        if (known) {
            final_remove(&gc->finals, final);
            finals_room(gc);
        }
        return 0;
    }
    if (!known) {
        if (!finals_room(gc))
            return ENOMEM;
        final = final_find(&gc->finals, (uintptr_t)object);
        gc->finals.count++;
    }
    *final = (gb_final){~(uintptr_t)object, function, context};
    return 0;
}

int glebe_gc_finalizer(glebe_gc *gc, void *object, glebe_gc_final *function, void *context)
{
    GB_ENTRY;
    void *before;
    return gb_finalizer_set(gc, object, function, context, &before);
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

/* What is ready, and did not run yet. */
GB_NOINLINE void gb_ready_mark(glebe_gc *gc)
{
    for (uint32_t i = 0; i < gc->ready.count; i++)
        gb_mark_object(gc, ~finals(&gc->ready)[i].object, true);
}

/* `ready` has room for all of `finals`: gb_finalize_room made it before the collection. */
void gb_finalize_finish(glebe_gc *gc)
{
    gb_final *final, *start = finals(&gc->finals), *end = start + gc->finals.room;
    if (GB_CALLBACKS)
        weak_clear(gc);
    for (final = start; gc->finals.count && final < end; final++) /* none this time: all of them live on */
        if (final->object && (!gc->finalizes || !gb_object_marked(gc, ~final->object)))
            gb_mark_object(gc, ~final->object, !gc->finalizes);
    for (final = start; gc->finals.count && final < end;)
        if (final->object && !gb_object_marked(gc, ~final->object)) {
            finals(&gc->ready)[gc->ready.count++] = *final;
            final_remove(&gc->finals, final); /* another may have come in its place */
        } else
            final++;
    gb_ready_mark(gc);
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
