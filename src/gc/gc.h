/* The collector. One thread at a time uses a collector and its heap, so the collector needs no lock. */
#ifndef GB_GC_H
#define GB_GC_H

#include "../api/api.h"

#pragma GCC visibility push(hidden)

/* Free cells in a row that a thread may hand out: cache.c. */
typedef struct gb_gap {
    uintptr_t at, end;
} gb_gap;

/* ---- sweep: where objects come from ----
 * Layouts of pages: 0: every word may be a reference; GB_PLAIN: none; else a layout of glebe_gc_alloc_layout. */
#define GB_PLAIN ((uintptr_t)3)
/* Returns a new object, all zero; NULL if a collection is due (gc->due), or there is no memory. Does not collect. */
void *gb_object_new(glebe_gc *gc, size_t bytes, uintptr_t layout);
/* gb_object_new, but lets memory grow even if a collection is due. */
void *gb_object_new_growing(glebe_gc *gc, size_t bytes, uintptr_t layout);
/* Returns the page of the object that contains the address `word`, and sets *object to the object's start; NULL if
 * there is none. */
gb_page *gb_object_at(const glebe_gc *gc, uintptr_t word, uintptr_t *object);
GB_INLINE uint32_t gb_object_index(const gb_page *page, size_t offset)
{
    return (uint32_t)((uint64_t)offset * page->magic >> 32);
}
GB_INLINE uintptr_t gb_object_start(const gb_page *page, uint32_t index)
{
    return gb_page_start(page) + (size_t)index * page->step;
}
/* Returns the collector's tables. An object's bit is the bit of the cell where it starts. Except in linear memory, the
 * first collector has tables of its own, and all others share a second set. So all bits in the first set are the first
 * collector's, at whatever address it looks. */
GB_INLINE gb_bits *gb_bits_of(const glebe_gc *gc) { return GB_BITS == 1 ? gb_the.bits : gc->bits; }
/* Returns whether other collectors may use the same tables: then the collector checks a page's owner before it reads a
 * bit. In linear memory the result does not change while the collector works. */
GB_INLINE bool gb_bits_shared(const glebe_gc *gc)
{
    return GB_HEAPS && (GB_BITS == 1 ? gb_the.bits->collectors > 1 : gc->bits != gb_the.bits);
}
/* Returns whether the slice of this entry belongs to the collector. If so, no other thread writes to its page and
 * bits. */
GB_INLINE bool gb_collects(const glebe_gc *gc, const gb_page *entry)
{
    return GB_HEAPS ? gb_peek(entry->owner) == gb_owner(gc->heap, GB_COLLECTED) : entry->kind >= GB_COLLECTED;
}
GB_INLINE size_t gb_cell(uintptr_t address) { return (address - gb_the.base) / GB_CELL_BYTES; }
/* The page's bits, and their number of words. */
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
/* Returns whether the object is one that the cursor can still hand out. */
GB_INLINE bool gb_cursor_has(const gb_cursor *cursor, uintptr_t object)
{
    size_t cell = (object - (cursor->end & ~(uintptr_t)(64 * GB_CELL_BYTES - 1))) / GB_CELL_BYTES;
    return object - cursor->at < cursor->end - cursor->at || (cell < 64 && cursor->rest >> cell & 1);
}
/* Returns how many objects the cursors can still hand out. allocated_objects counts them already. */
uint64_t gb_cursors_left(const glebe_gc *gc);
/* Returns the bytes of objects handed out since the last collection: unlike taken_bytes, without what the cursors and
 * caches can still hand out. */
size_t gb_since_bytes(const glebe_gc *gc);
/* Ends all cursors' gaps: the next allocation looks for a new gap. */
void gb_cursors_drop(glebe_gc *gc);
/* Unmarks all objects and ends all cursors' gaps. */
void gb_sweep_begin(glebe_gc *gc);
/* Frees all unmarked objects. Returns the bytes of the marked ones. */
size_t gb_sweep_finish(glebe_gc *gc);
/* Returns the kind that the layout is the address of, or NULL. */
GB_INLINE const glebe_gc_kind *gb_kind_of(uintptr_t layout)
{
    return GB_RUNTIMES && (layout & 3) == 2 ? (const glebe_gc_kind *)(layout - 2) : NULL;
}
/* Returns the words of one element of the layout, which is no kind's. 0: the layout does not say which words are
 * references. */
static inline size_t gb_layout_words(uintptr_t layout)
{
    return layout & 1 ? layout >> 1 & (((uintptr_t)1 << GLEBE_GC_LAYOUT_BITS) - 1)
        : layout      ? ((const glebe_gc_layout *)layout)->words
                      : 1;
}
/* Returns whether any word of an object with this layout may be a reference. */
bool gb_layout_dense(uintptr_t layout);
/* Returns a page of the collector to the arena. */
void gb_collected_give(glebe_gc *gc, gb_list *list, gb_page *page);

/* Clears a gap; most are short. The empty statement keeps the compiler from turning the loop into a memset, which may
 * be a call. */
GB_INLINE void gb_gap_zero(uintptr_t at, uintptr_t end)
{
    if (end - at > 256)
        memset((void *)at, 0, end - at);
    else
        for (; at < end; at += sizeof(uint64_t)) {
            *(uint64_t *)at = 0;
            __asm__ volatile("" ::: "memory");
        }
}
/* Returns cells that were not handed out. */
void gb_gap_return(glebe_gc *gc, const gb_gap *gap);
/* Lets the cells of the gap count as marked: marking leaves them alone, and so does the sweep. */
void gb_gap_shield(glebe_gc *gc, const gb_gap *gap, uint32_t step);

/* ---- cache: objects for one thread, without a lock (GB_RUNTIMES) ---- */
#define GB_ROW_GAPS 14
/* A thread's gaps for requests of one size. The thread alone writes it, except that gaps are added under the
 * collector's lock. */
typedef struct gb_cache_row {
    gb_gap gaps[GB_ROW_GAPS + 1]; /* the first is always empty */
    uint32_t now; /* place of the gap in use, in bytes from the row's start */
    uint32_t step; /* bytes of an object */
    uint16_t dirty; /* bits: gaps to clear. A user who promises no zeros may clear the bits of plain gaps */
    uint8_t last; /* number of the last gap */
    uint8_t fills; /* how often the row was filled, at most 255 */
} gb_cache_row;
/* Adds gaps for objects of `bytes`, conservative or plain, to the row, whose gaps have ended: `most_bytes` in all,
 * one object at least. Sets the row's `step`. Returns false if a collection is due, or there is no memory. */
bool gb_gaps_next(glebe_gc *gc, size_t bytes, bool plain, size_t most_bytes, gb_cache_row *row);

#define GB_CACHED_MAX ((size_t)512) /* larger objects are allocated under the lock */
typedef struct gb_cache {
    struct gb_cache *next; /* of the same collector */
    gb_cache_row rows[2][GB_CACHED_MAX / GB_CELL_BYTES + 1]; /* conservative and plain, by cells of the request */
} gb_cache;

/* Returns a thread's cache, or NULL if there is no memory. It and all functions here but gb_cache_take and
 * gb_cache_next are called under the lock that guards the collector. */
gb_cache *gb_cache_new(glebe_gc *gc);
/* Returns the cache's gaps to the pages, and frees it. Its thread uses it no more. */
void gb_cache_end(glebe_gc *gc, gb_cache *cache);
/* The row for requests of `bytes`, at most GB_CACHED_MAX. */
GB_INLINE gb_cache_row *gb_cache_row_of(gb_cache *cache, size_t bytes, bool plain)
{
    return &cache->rows[plain][(bytes + GB_CELL_BYTES - 1) / GB_CELL_BYTES];
}
/* Returns a new object of the gap in use, all zero; NULL if that gap has ended. A thread may be stopped between any
 * two instructions here: see cache.c. */
GB_INLINE void *gb_cache_take(gb_cache_row *row)
{
    gb_gap *gap = (gb_gap *)((char *)row + row->now);
    uintptr_t at = gap->at;
    if (GB_UNLIKELY(at == gap->end))
        return NULL;
    gap->at = at + row->step;
    return (void *)at;
}
/* The same from the row's next gap; NULL if that was the last one. */
void *gb_cache_next(gb_cache_row *row);
/* Takes gaps for the row, whose gaps have ended. Returns false if a collection is due, or there is no memory. */
bool gb_cache_fill(glebe_gc *gc, gb_cache_row *row, size_t bytes, bool plain);
/* Called when all threads have stopped, and marking has not begun. */
void gb_caches_shield(glebe_gc *gc);
/* For a walk while no marking runs: sets the bits in `waiting` of cells that the caches have not handed out; and clears
 * them. Threads may use their caches meanwhile, and do not fill them. */
void gb_caches_hide(glebe_gc *gc, bool hide);
/* Returns how many objects the caches can still hand out. Adds their bytes to *bytes. */
uint64_t gb_caches_left(const glebe_gc *gc, size_t *bytes);

/* ---- huge_object: objects over 1 MiB, not in linear memory ---- */
gb_huge_object *gb_huge_object_at(const glebe_gc *gc, uintptr_t word);
void *gb_huge_object_new(glebe_gc *gc, size_t bytes, uintptr_t layout);
void gb_huge_object_free(glebe_gc *gc, gb_huge_object *object);
void gb_huge_sweep_begin(glebe_gc *gc);
void gb_huge_sweep_finish(glebe_gc *gc);

/* ---- stack: objects that a scheduler uses as stacks (GB_STACKS) ---- */
/* Called when the scheduler starts this stack. It may be in use until the object that contains `stack` is freed. */
void gb_stack_runs(const glebe_gc *gc, const gb_stack *stack);
/* Sets the parts of a large object to scan: [its start, *low) and [*high, its end). */
void gb_stack_ends(const glebe_gc *gc, const gb_page *page, uintptr_t *low, uintptr_t *high);
/* Called right after sweeping: a stack whose record was freed is no longer in use. */
void gb_stacks_swept(const glebe_gc *gc);

/* ---- mark ---- */
/* Returns the start of the object that contains the address `word`, and sets *bytes; both are 0 if there is none. */
uintptr_t gb_object_bounds(const glebe_gc *gc, uintptr_t word, size_t *bytes);
void gb_mark_begin(glebe_gc *gc);
/* Makes a marked object wait for its scan. */
void gb_mark_later(glebe_gc *gc, uintptr_t object);
/* Moves objects that wait in the first pages of the list to the mark stack, which is empty: half a stack at most, so
 * that the objects they refer to have room. Returns the new top; the stack's start if no object waits. */
uintptr_t *gb_mark_waiting(glebe_gc *gc);
/* Marks the huge object that contains the address `word`, if there is one. `word` is in no slice, and before the end of
 * all huge objects. */
void gb_mark_huge(glebe_gc *gc, uintptr_t word);
/* Marks all that is reachable from objects allocated since gb_mark_begin. From here on no object is allocated until the
 * collection ends. */
void gb_mark_born(glebe_gc *gc);
/* Marks all that is reachable from the words in [start, end). */
void gb_mark_range(glebe_gc *gc, uintptr_t start, uintptr_t end);
/* Marks all that is reachable from the object; with `itself`, the object too. */
void gb_mark_object(glebe_gc *gc, uintptr_t object, bool itself);
/* References that are marked together: a marking of its own for each takes longer than most objects do. */
typedef struct gb_batch {
    uint32_t count;
    uintptr_t words[64];
} gb_batch;
/* Marks all that is reachable from the batch, and empties it. */
void gb_batch_mark(glebe_gc *gc, gb_batch *batch);
/* gb_mark_object(gc, object, true), now or when the batch is marked. */
GB_INLINE void gb_batch_add(glebe_gc *gc, gb_batch *batch, uintptr_t object)
{
    if (!GB_RUNTIMES) {
        gb_mark_object(gc, object, true);
        return;
    }
    batch->words[batch->count++] = object;
    if (batch->count == sizeof batch->words / sizeof *batch->words)
        gb_batch_mark(gc, batch);
}
/* Marks all that is reachable from `word`, if it is a reference. Works in a kind's function too. */
void gb_mark_reference(glebe_gc *gc, uintptr_t word);
bool gb_object_marked(const glebe_gc *gc, uintptr_t object);
/* Returns the layout of the object that contains the address `word`; there is one. */
uintptr_t gb_object_layout(const glebe_gc *gc, uintptr_t word);
/* Marks the pinned objects (GB_RUNTIMES). */
void gb_pins_mark(glebe_gc *gc);
/* Drops the object's pins. */
void gb_pin_forget(glebe_gc *gc, uintptr_t object);

/* ---- share: work that markers hand to each other (GB_RUNTIMES) ---- */
#ifndef GB_WORK_ITEMS
#define GB_WORK_ITEMS 254
#endif
typedef struct gb_work {
    struct gb_work *next;
    uintptr_t count;
    uintptr_t items[GB_WORK_ITEMS]; /* addresses of objects to scan */
} gb_work;
typedef struct gb_share {
    gb_lock lock;
    _Atomic uint32_t turn; /* idle markers sleep on it */
    _Atomic uint32_t wanted; /* a hint: a marker is idle, and there is no full chunk */
    gb_work *full, *empty;
    uint32_t markers; /* joined, and not left yet */
    uint32_t idle;
    bool open; /* markers may join */
} gb_share;
/* Adds an empty chunk. Under the lock, or before markers are started. */
void gb_share_add(gb_share *share, gb_work *chunk);
/* Begins a marking with the caller as its only marker, when all have left the last one. */
void gb_share_start(gb_share *share);
/* Waits until all markers have left. */
void gb_share_end(gb_share *share);
/* Makes the caller a marker. Returns false if marking has ended. */
bool gb_share_join(gb_share *share);
/* Returns an empty chunk, or NULL. */
gb_work *gb_share_empty(gb_share *share);
void gb_share_give(gb_share *share, gb_work *chunk);
/* Takes back the chunk `done`, unless it is NULL, and returns one with work; waits until there is one. NULL: marking
 * has ended, and the caller is no marker any more. */
gb_work *gb_share_take(gb_share *share, gb_work *done);

/* ---- team: several threads mark (GB_RUNTIMES) ---- */
/* Starts helpers and allocates what they need, if gc->helpers says so and there is enough to mark. */
void gb_team_prepare(glebe_gc *gc);
/* From here to gb_team_end gc->team is set, and helpers mark with the calling thread. The world is stopped. */
void gb_team_begin(glebe_gc *gc);
/* Marks all that was found reachable so far. */
void gb_team_end(glebe_gc *gc);
/* gb_mark_range and gb_mark_reference while there is a team; in kinds' functions, on any marker's thread. */
void gb_team_range(glebe_gc *gc, uintptr_t start, uintptr_t end);
void gb_team_mark(glebe_gc *gc, uintptr_t word);
/* Called when the collector is destroyed: its heap has the team's chunks. */
void gb_team_forget(const glebe_gc *gc);
/* Called in the child of a fork, whose only thread is the caller. */
void gb_team_forked(void);

/* ---- link: weak references that name their object (GB_RUNTIMES) ---- */
/* Clears the links, long ones or not, whose object is unmarked. */
void gb_links_clear(glebe_gc *gc, bool late);
/* Drops the links whose slot is in an unmarked object, which is about to be freed. */
void gb_links_finish(glebe_gc *gc);

/* ---- collect ---- */
/* What a runtime that is built with the core does in each collection besides the listener. */
typedef struct gb_hooks {
    /* All that roots refer to is marked; finalizers, links and weak references were not looked at. */
    void (*traced)(glebe_gc *gc);
    /* What is unmarked now is about to be freed, and gb_mark_object still keeps it. From here on the program's threads
     * may run, but for functions of this collector: they may use their caches. */
    void (*marked)(glebe_gc *gc);
} gb_hooks;
/* Calls `visit` for each unmarked object of the kind; it may mark. */
void gb_each_unmarked(glebe_gc *gc, uintptr_t layout, void (*visit)(glebe_gc *gc, uintptr_t object));
/* Initializes the collector `gc`, which is all zero. Returns false if there is no memory. The caller owns the heap. */
bool gb_collector_begin(glebe_gc *gc, glebe_heap *heap);

/* ---- table: hash tables; `bytes` is the size of an item, which begins with ~key ---- */
/* Returns the key's item; NULL if there is none. */
void *gb_table_find(const gb_table *table, size_t bytes, uintptr_t key);
/* Returns the key's item, or a new one, zero behind its key; NULL if there is no memory. */
void *gb_table_add(glebe_gc *gc, gb_table *table, size_t bytes, uintptr_t key);
/* Removes the item. Another item may move into its place, so a walk must look at that place again. An item may also
 * wrap from the table's start to its end: a walk then sees it twice. */
void gb_table_remove(gb_table *table, size_t bytes, void *item);
/* Makes room for one more item, and shrinks a table that is far too long. Returns false if there is no memory. */
bool gb_table_fit(glebe_gc *gc, gb_table *table, size_t bytes);
/* Returns whether each item is in the place where a search finds it. */
bool gb_table_well(const gb_table *table, size_t bytes);

/* ---- finalize: finalizers and weak references of unreachable objects ---- */
/* Implements glebe_gc_finalizer. Sets *before to the previous context, or NULL. */
int gb_finalizer_set(glebe_gc *gc, void *object, glebe_gc_final *function, void *context, void **before);
/* The order of the object's finalizer, if it has one; and its function, or NULL. */
void gb_finalizer_order(glebe_gc *gc, void *object, unsigned order);
glebe_gc_final *gb_finalizer_of(const glebe_gc *gc, const void *object);
/* Returns a ready finalizer and makes it not ready; NULL if none is ready. */
gb_final *gb_ready_take(glebe_gc *gc);
/* Around the call of a finalizer that gb_ready_take returned: the object stays from one to the other. */
gb_final gb_final_begin(gb_final *final);
void gb_final_end(glebe_gc *gc, uintptr_t object);
/* Implements glebe_gc_weak_add. `late`: the slot is cleared only when no finalizer needs the object any more. */
int gb_weak_add(glebe_gc *gc, void **slot, bool late);
/* Called when the program frees the object: drops its finalizer, and clears weak references to it. */
void gb_object_forget(glebe_gc *gc, uintptr_t object, size_t bytes);
/* Marks the objects whose finalizers are ready or running, as roots. */
void gb_ready_mark(glebe_gc *gc);
void gb_finalize_finish(glebe_gc *gc);

#pragma GCC visibility pop

#endif
