/* The collector. One thread at a time uses a collector and its heap, so the collector needs no lock. */
#ifndef GB_GC_H
#define GB_GC_H

#include "../api/api.h"

#pragma GCC visibility push(hidden)

/* ---- sweep: where objects come from ----
 * Layouts of pages: 0: every word may be a reference; GB_PLAIN: none; else a layout of glebe_gc_alloc_layout. */
#define GB_PLAIN ((uintptr_t)3)
/* A new object, zero. NULL: a collection is due (gc->due), or there is no memory. Does not collect. */
void *gb_object_new(glebe_gc *gc, size_t bytes, uintptr_t layout);
/* The same, but if a collection is due memory grows instead. */
void *gb_object_new_growing(glebe_gc *gc, size_t bytes, uintptr_t layout);
/* The page of the object that contains the address `word`, and the object's start in *object; NULL if there is none. */
gb_page *gb_object_at(const glebe_gc *gc, uintptr_t word, uintptr_t *object);
GB_INLINE uint32_t gb_object_index(const gb_page *page, size_t offset)
{
    return (uint32_t)((uint64_t)offset * page->magic >> 32);
}
GB_INLINE uintptr_t gb_object_start(const gb_page *page, uint32_t index)
{
    return gb_page_start(page) + (size_t)index * page->step;
}
/* The collector's tables. An object's bit is the bit of the cell where it starts. Natively the first collector has a
 * pair of tables of its own, and all others share one. So in the first one's tables no bit belongs to another, whatever
 * number it looks up. */
GB_INLINE gb_bits *gb_bits_of(const glebe_gc *gc) { return GB_BITS == 1 ? gb_the.bits : gc->bits; }
/* True if other collectors use the same tables: then the collector checks a page's owner before it reads a bit. Where
 * memory is linear the answer does not change while the collector works. */
GB_INLINE bool gb_bits_shared(const glebe_gc *gc)
{
    return GB_HEAPS && (GB_BITS == 1 ? gb_the.bits->collectors > 1 : gc->bits != gb_the.bits);
}
/* Does the slice with this entry belong to the collector? If so, no other thread writes to its page and bits. */
GB_INLINE bool gb_collects(const glebe_gc *gc, const gb_page *entry)
{
    return GB_HEAPS ? gb_peek(entry->owner) == gb_owner(gc->heap, GB_COLLECTED) : entry->kind >= GB_COLLECTED;
}
GB_INLINE size_t gb_cell(uintptr_t address) { return (address - gb_the.base) / GB_CELL_BYTES; }
/* The page's bits, and how many words they have. */
GB_INLINE uint64_t *gb_page_bits(uint64_t *table, const gb_page *page)
{
    return table + (size_t)gb_slice_of(page) * (GB_SLICE_BITS / 64);
}
GB_INLINE uint32_t gb_page_words(const gb_page *page)
{
    return page->cap == 1 ? 1 : page->slices * (GB_SLICE_BITS / 64);
}
/* The list of the i-th cursor's pages; for GB_CURSORS: of large objects. */
GB_INLINE gb_list *gb_collected_list(glebe_gc *gc, uint32_t i)
{
    return i < GB_CURSORS ? &gc->cursors[i].pages : &gc->large;
}
/* How many objects the cursors can still hand out. Statistics count these as allocated. */
uint64_t gb_cursors_left(const glebe_gc *gc);
/* Ends all cursors' holes: the next allocation looks for a new hole. */
void gb_cursors_drop(glebe_gc *gc);
/* Unmarks all objects and ends all cursors' holes. */
void gb_sweep_begin(glebe_gc *gc);
/* Frees all unmarked objects. Returns the bytes of the marked ones. */
size_t gb_sweep_finish(glebe_gc *gc);
/* Words of one element of the layout. 0: the layout says nothing. */
static inline size_t gb_layout_words(uintptr_t layout)
{
    return layout & 1 ? layout >> 1 & (((uintptr_t)1 << GLEBE_GC_LAYOUT_BITS) - 1)
        : layout      ? ((const glebe_gc_layout *)layout)->words
                      : 1;
}
/* Returns a page of the collector to the arena. */
void gb_collected_give(glebe_gc *gc, gb_list *list, gb_page *page);

/* ---- huge_object: objects over 1 MiB, where memory is not linear ---- */
gb_huge_object *gb_huge_object_at(const glebe_gc *gc, uintptr_t word);
void *gb_huge_object_new(glebe_gc *gc, size_t bytes, uintptr_t layout);
void gb_huge_object_free(glebe_gc *gc, gb_huge_object *object);
void gb_huge_sweep_begin(glebe_gc *gc);
void gb_huge_sweep_finish(glebe_gc *gc);

/* ---- stack: objects that a scheduler uses as stacks (GB_STACKS) ---- */
/* The scheduler starts this stack, which may stay in use until the object that contains `stack` is freed. */
void gb_stack_runs(const glebe_gc *gc, const gb_stack *stack);
/* The parts of a large object to scan: [its start, *low) and [*high, its end). */
void gb_stack_ends(const glebe_gc *gc, const gb_page *page, uintptr_t *low, uintptr_t *high);
/* Called right after sweeping: a stack whose record was freed is not in use any more. */
void gb_stacks_swept(const glebe_gc *gc);

/* ---- mark ---- */
/* The start of the object that contains the address `word`, and its bytes; 0, and no bytes, if there is none. */
uintptr_t gb_object_bounds(const glebe_gc *gc, uintptr_t word, size_t *bytes);
void gb_mark_begin(glebe_gc *gc);
/* Marks what objects allocated since gb_mark_begin refer to. No object is allocated until the collection ends. */
void gb_mark_born(glebe_gc *gc);
void gb_mark_range(glebe_gc *gc, uintptr_t start, uintptr_t end);
/* Marks what is reachable from the object, and if `itself`, the object. */
void gb_mark_object(glebe_gc *gc, uintptr_t object, bool itself);
bool gb_object_marked(const glebe_gc *gc, uintptr_t object);

/* ---- collect ---- */
/* Makes a collector of `gc`, which is all zero. The caller owns the heap. */
bool gb_collector_begin(glebe_gc *gc, glebe_heap *heap);

/* ---- table: hash tables; `bytes` is the size of an item, which begins with ~key ---- */
/* The key's item; NULL if there is none. */
void *gb_table_find(const gb_table *table, size_t bytes, uintptr_t key);
/* The key's item, or a new one, zero behind its key; NULL: there is no memory. */
void *gb_table_add(glebe_gc *gc, gb_table *table, size_t bytes, uintptr_t key);
/* Removes the item. Another item may move into its place, so a walk must look at that place again. Only items that
 * wrapped around the table's end move to an earlier place: a walk has seen those. */
void gb_table_remove(gb_table *table, size_t bytes, void *item);
/* Makes room for one more item, and shrinks a table that is far too long; false: there is no memory. */
bool gb_table_fit(glebe_gc *gc, gb_table *table, size_t bytes);
/* True if each item is in the place where a search finds it. */
bool gb_table_well(const gb_table *table, size_t bytes);

/* ---- finalize: finalizers and weak references of unreachable objects ---- */
/* Implements glebe_gc_finalizer; *before is the previous context, or NULL. */
int gb_finalizer_set(glebe_gc *gc, void *object, glebe_gc_final *function, void *context, void **before);
/* Takes a ready finalizer, which is not ready from then on; NULL: none is. */
gb_final *gb_ready_take(glebe_gc *gc);
/* Implements glebe_gc_weak_add. `late`: the slot is cleared only once no finalizer needs the object any more. */
int gb_weak_add(glebe_gc *gc, void **slot, bool late);
/* The caller frees the object: its finalizer does not run, and weak references to it are cleared. */
void gb_object_forget(glebe_gc *gc, uintptr_t object, size_t bytes);
/* Marks the objects whose finalizers are ready or running, as roots. */
void gb_ready_mark(glebe_gc *gc);
void gb_finalize_finish(glebe_gc *gc);

#pragma GCC visibility pop

#endif
