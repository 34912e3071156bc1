/* Collected objects over 1 MiB, not in linear memory. Each is a huge block of the collector's heap. A table, sorted by
 * address, holds for them what page entries and bits hold for other objects. Marking looks up a word there if it is in
 * no slice but between the first and the last huge object. In linear memory such objects are runs of slices like any
 * large object, and nothing here is called.
 *
 * Marked huge objects that may hold references wait until the mark stack is empty. Then they are scanned in pieces. */
#include "gc.h"

static gb_huge_object *huge_objects(const glebe_gc *gc) { return gc->huge.items; }

/* Returns the number of huge objects that begin at `word` or before. */
static uint32_t huge_object_rank(const glebe_gc *gc, uintptr_t word)
{
    uint32_t low = 0, high = gc->huge.count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (huge_objects(gc)[middle].from <= word)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

gb_huge_object *gb_huge_object_at(const glebe_gc *gc, uintptr_t word)
{
    uint32_t rank = huge_object_rank(gc, word);
    return rank && word < huge_objects(gc)[rank - 1].to ? huge_objects(gc) + rank - 1 : NULL;
}

/* Updates the bounds that marking compares words with. */
static void huge_objects_bound(glebe_gc *gc)
{
    const gb_huge_object *first = huge_objects(gc);
    gc->huge_from = gc->huge.count ? first->from : 0;
    gc->huge_span = gc->huge.count ? first[gc->huge.count - 1].to - first->from : 0;
}

/* Makes room for one more. The allocation may call the program's pressure callback, which may use the collector. */
static bool huge_objects_room(glebe_gc *gc)
{
    while (gc->huge.count == gc->huge.room) {
        gb_table old = gc->huge;
        uint32_t room = old.room ? old.room * 2 : 16;
        void *items = gb_alloc(gc->heap, room * sizeof(gb_huge_object));
        if (!items)
            return false;
        bool same = gc->huge.items == old.items;
        if (same && old.items)
            memcpy(items, old.items, gc->huge.count * sizeof(gb_huge_object));
        if (same) {
            gc->huge.items = items;
            gc->huge.room = room;
        }
        gb_free("glebe_gc", gc->heap, same ? old.items : items);
    }
    return true;
}

void *gb_huge_object_new(glebe_gc *gc, size_t bytes, uintptr_t layout)
{
    gb_request request = {.bytes = bytes, .alignment = 1, .collected = true};
    if (bytes > GB_BLOCK_MAX || !huge_objects_room(gc))
        return NULL;
    void *block = gb_huge_source(gc->heap, &request);
    if (!block)
        return NULL;
    const gb_extent *extent = gb_huge_find(block);
    /* clears up to the extent's end, because marking scans up to there */
    gb_huge_clear(block, request.dirty < extent->bytes ? request.dirty : extent->bytes);
    uint32_t rank = huge_object_rank(gc, (uintptr_t)block);
    gb_huge_object *object = huge_objects(gc) + rank;
    memmove(object + 1, object, (gc->huge.count++ - rank) * sizeof *object);
    *object = (gb_huge_object){
        (uintptr_t)block, (uintptr_t)block + extent->bytes, layout, gc->marking, 0, gc->marking};
    gc->born |= gc->marking;
    huge_objects_bound(gc);
    gc->huge_bytes += extent->bytes;
    gc->taken_bytes += extent->bytes;
    gc->stats.allocated_objects++;
    return block;
}

static void huge_object_give(glebe_gc *gc, const gb_huge_object *object)
{
    gc->huge_bytes -= object->to - object->from;
    gb_huge_free(gb_huge_find((const void *)object->from));
}

void gb_huge_object_free(glebe_gc *gc, gb_huge_object *object)
{
    huge_object_give(gc, object);
    size_t behind = (size_t)(huge_objects(gc) + gc->huge.count - (object + 1));
    memmove(object, object + 1, behind * sizeof *object);
    gc->huge.count--;
    huge_objects_bound(gc);
    gb_retain_bound();
}

void gb_huge_sweep_begin(glebe_gc *gc)
{
    for (uint32_t i = 0; i < gc->huge.count; i++)
        huge_objects(gc)[i].marked = huge_objects(gc)[i].born = false;
    gc->huge_waiting = 0;
}

void gb_huge_sweep_finish(glebe_gc *gc)
{
    gb_huge_object *objects = huge_objects(gc);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < gc->huge.count; i++) {
        if (!objects[i].marked) {
            huge_object_give(gc, &objects[i]);
            continue;
        }
        gc->live_bytes += objects[i].to - objects[i].from;
        gc->stats.marked_objects++;
        objects[kept++] = objects[i];
    }
    gc->huge.count = kept;
    huge_objects_bound(gc);
}
