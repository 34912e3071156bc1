/* The collector's functions for runtimes of languages on hosts: what an address refers to, pins, and walks. mark.c
 * marks by a kind's own function, sweep.c has the pages of kinds, and finalize.c the orders of finalizers.
 *
 * A pin is an item of a table. All pinned objects are marked when a collection begins, so a pin costs nothing where
 * objects are marked, and the object needs no header. */
#include "gc.h"

void *glebe_gc_base(const glebe_gc *gc, const void *address)
{
    GB_ENTRY;
    size_t bytes;
    return (void *)gb_object_bounds(gc, (uintptr_t)address, &bytes);
}

uintptr_t glebe_gc_layout_of(const glebe_gc *gc, const void *object)
{
    GB_ENTRY;
    size_t bytes;
    return gb_object_bounds(gc, (uintptr_t)object, &bytes) ? gb_object_layout(gc, (uintptr_t)object) : 0;
}

int glebe_gc_limit(glebe_gc *gc, size_t limit_bytes)
{
    GB_ENTRY;
    return glebe_heap_limit(gc->heap, limit_bytes);
}

/* ---- marking ---- */

void glebe_gc_mark_object(glebe_gc *gc, const void *reference)
{
    GB_ENTRY;
    if (gc->marking)
        gb_mark_reference(gc, (uintptr_t)reference);
}

bool glebe_gc_marked(const glebe_gc *gc, const void *object)
{
    GB_ENTRY;
    return gc->marking ? gb_object_marked(gc, (uintptr_t)object) : glebe_gc_base(gc, object) != NULL;
}

/* ---- finalizers ---- */

int glebe_gc_finalizer_order(glebe_gc *gc, void *object, glebe_gc_final *function, void *context, unsigned order,
    glebe_gc_final **old_function, void **old_context)
{
    GB_ENTRY;
    if (order > (GLEBE_GC_ORDERS | GLEBE_GC_ROOTS_CONTEXT))
        return EINVAL;
    glebe_gc_final *before = gb_finalizer_of(gc, object);
    void *context_before;
    int failed = gb_finalizer_set(gc, object, function, context, &context_before);
    if (failed)
        return failed;
    gb_finalizer_order(gc, object, order);
    if (old_function)
        *old_function = before;
    if (old_context)
        *old_context = before ? context_before : NULL;
    return 0;
}

size_t glebe_gc_ready(const glebe_gc *gc)
{
    GB_ENTRY;
    return gc->ready;
}

/* ---- pins ---- */

int glebe_gc_pin(glebe_gc *gc, void *object)
{
    GB_ENTRY;
    size_t bytes;
    if (!object || gb_object_bounds(gc, (uintptr_t)object, &bytes) != (uintptr_t)object)
        return EINVAL;
    gb_pin *pin = gb_table_add(gc, &gc->pins, sizeof *pin, (uintptr_t)object);
    if (!pin)
        return ENOMEM;
    if (pin->times++ == 0 && gc->marking)
        gb_mark_reference(gc, (uintptr_t)object);
    return 0;
}

int glebe_gc_unpin(glebe_gc *gc, void *object)
{
    GB_ENTRY;
    gb_pin *pin = gb_table_find(&gc->pins, sizeof *pin, (uintptr_t)object);
    if (!pin)
        return ENOENT;
    if (--pin->times == 0) {
        gb_table_remove(&gc->pins, sizeof *pin, pin);
        gb_table_fit(gc, &gc->pins, sizeof *pin);
    }
    return 0;
}

bool glebe_gc_pinned(const glebe_gc *gc, const void *object)
{
    GB_ENTRY;
    return gb_table_find(&gc->pins, sizeof(gb_pin), (uintptr_t)object) != NULL;
}

void gb_pin_forget(glebe_gc *gc, uintptr_t object)
{
    gb_pin *pin = gb_table_find(&gc->pins, sizeof *pin, object);
    if (pin)
        gb_table_remove(&gc->pins, sizeof *pin, pin);
}

void gb_pins_mark(glebe_gc *gc)
{
    const gb_pin *pins = gc->pins.items;
    gb_batch batch;
    batch.count = 0;
    for (uint32_t i = 0; i < gc->pins.room; i++)
        if (pins[i].object)
            gb_batch_add(gc, &batch, ~pins[i].object);
    gb_batch_mark(gc, &batch);
}

/* ---- a walk ---- */

static void each_of_page(
    const glebe_gc *gc, const gb_page *page, void (*visit)(void *context, void *object, size_t bytes), void *context)
{
    for (uint32_t i = 0; i < page->cap; i++) {
        size_t bytes;
        uintptr_t object = gb_object_start(page, i);
        if (gb_object_bounds(gc, object, &bytes) && (gc->marking || !gb_bit(gb_bits_of(gc)->waiting, gb_cell(object))))
            visit(context, (void *)object, bytes);
    }
}

static void each_unmarked_of(
    glebe_gc *gc, const gb_page *page, void (*visit)(glebe_gc *gc, uintptr_t object))
{
    const uint64_t *words = gb_page_bits(gb_bits_of(gc)->unmarked, page);
    for (uint32_t w = 0; w < gb_page_words(page); w++)
        for (uint64_t later = ~(uint64_t)0, bits; (bits = words[w] & later) != 0;) {
            unsigned bit = gb_ctz64(bits);
            later = bit == 63 ? 0 : ~(uint64_t)0 << (bit + 1);
            visit(gc, gb_page_start(page) + (w * 64 + bit) * GB_CELL_BYTES);
        }
}

void gb_each_unmarked(glebe_gc *gc, uintptr_t layout, void (*visit)(glebe_gc *gc, uintptr_t object))
{
    for (uint32_t i = GB_KINDS; GB_RUNTIMES && i <= GB_CURSORS; i++)
        if (i == GB_CURSORS || gc->cursors[i].layout == layout)
            for (const gb_page *page = gb_list_first(gb_collected_list(gc, i)); page; page = gb_list_next(page))
                if (page->layout == layout)
                    each_unmarked_of(gc, page, visit);
    for (uint32_t i = 0; GB_RUNTIMES && i < gc->huge.count; i++) {
        const gb_huge_object *huge = (const gb_huge_object *)gc->huge.items + i;
        if (huge->layout == layout && !huge->marked)
            visit(gc, huge->from);
    }
}

void glebe_gc_each(glebe_gc *gc, void (*visit)(void *context, void *object, size_t bytes), void *context)
{
    GB_ENTRY;
    if (!gc->marking)
        gb_caches_hide(gc, true);
    for (uint32_t i = 0; i <= GB_CURSORS; i++)
        for (const gb_page *page = gb_list_first(gb_collected_list(gc, i)); page; page = gb_list_next(page))
            each_of_page(gc, page, visit, context);
    if (!gc->marking)
        gb_caches_hide(gc, false);
    const gb_huge_object *huge = gc->huge.items;
    for (uint32_t i = 0; i < gc->huge.count; i++)
        visit(context, (void *)huge[i].from, huge[i].to - huge[i].from);
}
