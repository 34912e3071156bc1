/* The collector. */
#ifndef GB_GC_H
#define GB_GC_H

#include "../api/api.h"

#pragma GCC visibility push(hidden)

/* ---- sweep: objects that are collected ----
 * Layouts of pages: 0 every word may be a reference, GB_PLAIN none, else as glebe_gc_alloc_layout has it. */
#define GB_PLAIN ((uintptr_t)3)
/* A new object, zero. NULL: gc->due, a collection is; or there is no memory. May not collect. */
void *gb_object_new(glebe_gc *gc, size_t bytes, uintptr_t layout);
/* The same, though a collection is due: memory grows. */
void *gb_object_new_growing(glebe_gc *gc, size_t bytes, uintptr_t layout);
/* The object that `word` is an address in: its page, and its start in *object; NULL if there is none. */
gb_page *gb_object_at(const glebe_gc *gc, uintptr_t word, uintptr_t *object);
GB_INLINE uint32_t gb_object_index(const gb_page *page, size_t offset)
{
    return (uint32_t)((uint64_t)offset * page->magic >> 32);
}
GB_INLINE uintptr_t gb_object_start(const gb_page *page, uint32_t index)
{
    return gb_page_start(page) + (size_t)index * page->step;
}
/* The collector's tables. An object's bit is that of the cell that it starts in. Natively the collector that was
 * there first is alone in one pair of tables, and the others share one: no bit of the first's is another's, whatever
 * number it looks up there. */
GB_INLINE gb_bits *gb_bits_of(const glebe_gc *gc) { return GB_BITS == 1 ? gb_the.bits : gc->bits; }
/* Others have theirs beside the collector's: it asks whose a page is before it looks at a bit. Where memory is
 * linear that does not change under its hands. */
GB_INLINE bool gb_bits_shared(const glebe_gc *gc)
{
    return GB_HEAPS && (GB_BITS == 1 ? gb_the.bits->collectors > 1 : gc->bits != gb_the.bits);
}
/* Is the slice with this entry the collector's? Then no other thread writes to its page and bits. */
GB_INLINE bool gb_collects(const glebe_gc *gc, const gb_page *entry)
{
    return GB_HEAPS ? gb_peek(entry->owner) == gb_owner(gc->heap, GB_COLLECTED) : entry->kind >= GB_COLLECTED;
}
GB_INLINE size_t gb_cell(uintptr_t address) { return (address - gb_the.base) / GB_CELL_BYTES; }
/* A page's bits, and how many words they are. */
GB_INLINE uint64_t *gb_page_bits(uint64_t *table, const gb_page *page)
{
    return table + (size_t)gb_page_number(page) * (GB_SLICE_BITS / 64);
}
GB_INLINE uint32_t gb_page_words(const gb_page *page)
{
    return page->cap == 1 ? 1 : page->slices * (GB_SLICE_BITS / 64);
}
/* The pages of the i-th cursor; of number GB_CURSORS: large objects. */
GB_INLINE gb_list *gb_collected_list(glebe_gc *gc, uint32_t i)
{
    return i < GB_CURSORS ? &gc->cursors[i].pages : &gc->large;
}
/* Objects that cursors have still to hand out, which count as allocated. */
uint64_t gb_cursors_left(const glebe_gc *gc);
/* Nothing is handed out any more from the holes that there are. */
void gb_cursors_drop(glebe_gc *gc);
/* Nothing is marked, and nothing is handed out any more. */
void gb_sweep_begin(glebe_gc *gc);
/* What is not marked is free from now on. Returns the bytes of what is marked. */
size_t gb_sweep_finish(glebe_gc *gc);
/* Of an element. 0: it says nothing. */
static inline size_t gb_layout_words(uintptr_t layout)
{
    return layout & 1 ? layout >> 1 & (((uintptr_t)1 << GLEBE_GC_LAYOUT_BITS) - 1)
        : layout      ? ((const glebe_gc_layout *)layout)->words
                      : 1;
}
/* A page of a collector goes back. */
void gb_collected_give(glebe_gc *gc, gb_list *list, gb_page *page);

/* ---- huge_object: those over 1 MiB, where memory is not linear ---- */
gb_huge_object *gb_huge_object_at(const glebe_gc *gc, uintptr_t word);
void *gb_huge_object_new(glebe_gc *gc, size_t bytes, uintptr_t layout);
void gb_huge_object_free(glebe_gc *gc, gb_huge_object *object);
void gb_huge_sweep_begin(glebe_gc *gc);
void gb_huge_sweep_finish(glebe_gc *gc);

/* ---- stack: objects that a scheduler runs on (GB_STACKS) ---- */
/* The scheduler starts this stack, which may stay in use until the object that `stack` is in is freed. */
void gb_stack_runs(const glebe_gc *gc, const gb_stack *stack);
/* What of a large object is to be scanned: [its start, *low) and [*high, its end). */
void gb_stack_ends(const glebe_gc *gc, const gb_page *page, uintptr_t *low, uintptr_t *high);
/* Right after sweeping: stacks whose record was freed are in use no more. */
void gb_stacks_swept(const glebe_gc *gc);

/* ---- mark ---- */
/* Where the object that `word` is an address in starts, and its bytes; 0, and no bytes, if there is none. */
uintptr_t gb_object_bounds(const glebe_gc *gc, uintptr_t word, size_t *bytes);
void gb_mark_begin(glebe_gc *gc);
/* What was allocated since, and what that refers to. No more will be. */
void gb_mark_born(glebe_gc *gc);
void gb_mark_range(glebe_gc *gc, uintptr_t start, uintptr_t end);
/* Marks what is reachable from an object: with or without itself. */
void gb_mark_object(glebe_gc *gc, uintptr_t object, bool itself);
bool gb_object_marked(const glebe_gc *gc, uintptr_t object);

/* ---- collect ---- */
/* Makes a collector of `gc`, which is all zero, on a heap that is its owner's. */
bool gb_collector_begin(glebe_gc *gc, glebe_heap *heap);

/* ---- table: hash tables; `bytes` is that of an item, which begins with ~key ---- */
/* The key's item; NULL if there is none. */
void *gb_table_find(const gb_table *table, size_t bytes, uintptr_t key);
/* The same, or a new one, zero behind its key; NULL: there is no memory. */
void *gb_table_add(glebe_gc *gc, gb_table *table, size_t bytes, uintptr_t key);
/* Another item may come in its place; none moves to a place before it but from behind the table's end. */
void gb_table_remove(gb_table *table, size_t bytes, void *item);
/* Room for one item more, and not far too much; false: there is no memory. */
bool gb_table_fit(glebe_gc *gc, gb_table *table, size_t bytes);
/* Each item is where it is looked for. */
bool gb_table_well(const gb_table *table, size_t bytes);

/* ---- finalize: what happens to objects that are unreachable ---- */
/* glebe_gc_finalizer; *before is the context that was there, or NULL. */
int gb_finalizer_set(glebe_gc *gc, void *object, glebe_gc_final *function, void *context, void **before);
/* A finalizer that is ready, and not any more from now on; NULL: none is. */
gb_final *gb_ready_take(glebe_gc *gc);
/* The object is freed: its finalizer does not run, and weak references to it are cleared. */
void gb_object_forget(glebe_gc *gc, uintptr_t object, size_t bytes);
/* Roots: objects whose finalizers are ready, or run. */
void gb_ready_mark(glebe_gc *gc);
void gb_finalize_finish(glebe_gc *gc);

#pragma GCC visibility pop

#endif
