/* Links: weak references that name their object, so that the slot may hold anything, for example a disguised reference.
 *
 *     slot  in any memory         -->  object     a table holds both addresses, complemented
 *           or in a plain object
 *
 * Between marking and sweeping: short links to unmarked objects are cleared before finalizers are looked at, long ones
 * afterwards. Then links whose slot is in an unmarked object are dropped: that memory is about to be reused. */
#include "gc.h"

static gb_weak_link *link_find(const glebe_gc *gc, void **slot, bool is_long)
{
    return gb_table_find(&gc->links, sizeof(gb_weak_link), (uintptr_t)slot | is_long);
}

static gb_weak_link *link_put(glebe_gc *gc, void **slot, uintptr_t object, bool is_long)
{
    gb_weak_link *link = gb_table_add(gc, &gc->links, sizeof *link, (uintptr_t)slot | is_long);
    if (link)
        link->object = ~object;
    return link;
}

int glebe_gc_link_add(glebe_gc *gc, void **slot, const void *object, bool is_long)
{
    GB_ENTRY;
    size_t bytes;
    if (!slot || (uintptr_t)slot % sizeof(void *) || !object
        || gb_object_bounds(gc, (uintptr_t)object, &bytes) != (uintptr_t)object)
        return EINVAL;
    bool found = link_find(gc, slot, is_long) != NULL;
    return !link_put(gc, slot, (uintptr_t)object, is_long) ? ENOMEM : found ? EEXIST : 0;
}

int glebe_gc_link_move(glebe_gc *gc, void **slot, void **to, bool is_long)
{
    GB_ENTRY;
    gb_weak_link *link = link_find(gc, slot, is_long);
    if (!link || slot == to)
        return link ? 0 : ENOENT;
    if (!to || (uintptr_t)to % sizeof(void *))
        return EINVAL;
    if (link_find(gc, to, is_long))
        return EEXIST;
    uintptr_t object = ~link->object;
    gb_table_remove(&gc->links, sizeof *link, link); /* leaves room for the new place */
    return link_put(gc, to, object, is_long) ? 0 : ENOMEM;
}

int glebe_gc_link_remove(glebe_gc *gc, void **slot, bool is_long)
{
    GB_ENTRY;
    gb_weak_link *link = link_find(gc, slot, is_long);
    if (!link)
        return ENOENT;
    gb_table_remove(&gc->links, sizeof *link, link);
    gb_table_fit(gc, &gc->links, sizeof *link);
    return 0;
}

void gb_links_clear(glebe_gc *gc, bool late)
{
    gb_weak_link *link = gc->links.items, *end = link + gc->links.room;
    while (gc->links.count && link < end) {
        uintptr_t slot = ~link->slot;
        if (link->slot && (slot & 1) == late && !gb_object_marked(gc, ~link->object)) {
            *(void **)(slot - late) = NULL;
            gb_table_remove(&gc->links, sizeof *link, link); /* another item may have moved into its place */
        } else
            link++;
    }
}

void gb_links_finish(glebe_gc *gc)
{
    size_t bytes;
    gb_weak_link *link = gc->links.items, *end = link + gc->links.room;
    while (gc->links.count && link < end) {
        uintptr_t slot = ~link->slot & ~(uintptr_t)1;
        if (link->slot && gb_object_bounds(gc, slot, &bytes) && !gb_object_marked(gc, slot))
            gb_table_remove(&gc->links, sizeof *link, link);
        else
            link++;
    }
}
