/* The collector's hash tables: finalizers by object, weak references by slot, roots by start. Finding or removing an
 * item takes a few steps however many there are. Setting one does too, except when the table is half full and moves to
 * twice the room: a million items move in about 50 ms.
 *
 * An item begins with its complemented key, so a table does not refer to its objects even if all memory is scanned. 0
 * means no item, because fresh memory is zero. Open addressing, linear probing. Items behind a removed one that can
 * move nearer to their own place fill the gap, so there are no tombstones. At least half of a table is empty.
 *
 * Tables are blocks of malloc in the collector's heap, which marking does not scan. A collection removes items and
 * never adds one, so it takes no memory. */
#include "../serve/alloc.h"
#include "gc.h"

enum { TABLE_ITEMS_LEAST = 16 };

static uintptr_t *table_item(const gb_table *table, size_t bytes, uint32_t i)
{
    return (uintptr_t *)((char *)table->items + i * bytes);
}

static uint32_t table_home(const gb_table *table, uintptr_t key)
{
    return (uint32_t)((key >> 3) * GB_GOLDEN >> (8 * sizeof key - gb_ctz32(table->room)));
}

/* Returns the key's item, or the empty item where it would be. The table has room. */
static uintptr_t *table_place(const gb_table *table, size_t bytes, uintptr_t key)
{
    uint32_t i = table_home(table, key);
    uintptr_t *item;
    for (; *(item = table_item(table, bytes, i)) && *item != ~key; i = (i + 1) & (table->room - 1))
        GB_PROBED();
    return item;
}

void *gb_table_find(const gb_table *table, size_t bytes, uintptr_t key)
{
    uintptr_t *item = table->count ? table_place(table, bytes, key) : NULL;
    return item && *item ? item : NULL;
}

void gb_table_remove(gb_table *table, size_t bytes, void *item)
{
    uint32_t mask = table->room - 1, vacant = (uint32_t)(((char *)item - (char *)table->items) / bytes);
    uintptr_t *next;
    for (uint32_t i = (vacant + 1) & mask; *(next = table_item(table, bytes, i)); i = (i + 1) & mask) {
        GB_PROBED();
        /* the item's own place is the gap, or before it */
        if (((i - table_home(table, ~*next)) & mask) >= ((i - vacant) & mask)) {
            memcpy(table_item(table, bytes, vacant), next, bytes);
            vacant = i;
        }
    }
    *table_item(table, bytes, vacant) = 0;
    table->count--;
}

/* The allocation may call the program's pressure callback, which may change the table; then this retries. */
bool gb_table_fit(glebe_gc *gc, gb_table *table, size_t bytes)
{
    for (;;) {
        gb_table old = *table, fresh = {NULL, 0, TABLE_ITEMS_LEAST};
        if (old.count >= UINT32_MAX / 4)
            return false;
        while (fresh.room < 2 * (old.count + 1))
            fresh.room *= 2;
        if (old.room >= fresh.room && old.room <= 8 * fresh.room)
            return true;
        fresh.items = gb_calloc(gc->heap, fresh.room, bytes);
        if (!fresh.items)
            return old.room > fresh.room;
        bool same = table->items == old.items && table->count == old.count;
        for (uint32_t i = 0; same && i < old.room; i++)
            if (*table_item(&old, bytes, i)) {
                memcpy(table_place(&fresh, bytes, ~*table_item(&old, bytes, i)), table_item(&old, bytes, i), bytes);
                fresh.count++;
            }
        if (same)
            *table = fresh;
        gb_free("glebe_gc", gc->heap, same ? old.items : fresh.items);
    }
}

void *gb_table_add(glebe_gc *gc, gb_table *table, size_t bytes, uintptr_t key)
{
    uintptr_t *item = gb_table_find(table, bytes, key);
    if (item)
        return item;
    /* no collection runs before the item is in: the caller's new root may be the only reference to an object */
    gc->forced += GB_CALLBACKS;
    bool fits = gb_table_fit(gc, table, bytes);
    gc->forced -= GB_CALLBACKS;
    if (!fits)
        return NULL;
    item = table_place(table, bytes, key);
    if (*item) /* the program added it in the callback */
        return item;
    memset(item, 0, bytes);
    *item = ~key;
    table->count++;
    return item;
}

bool gb_table_well(const gb_table *table, size_t bytes)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < table->room; i++) {
        const uintptr_t *item = table_item(table, bytes, i);
        count += *item != 0;
        if (*item && table_place(table, bytes, ~*item) != item)
            return false;
    }
    return count == table->count;
}
