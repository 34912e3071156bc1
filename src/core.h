/* What the modules offer each other; README.md has their layers. "Owner" is the one thread that may use the heap
 * now; "locked" means under the region's lock. */
#ifndef GB_CORE_H
#define GB_CORE_H

#include "entry.h"
#include "page_map.h"
#include "port.h"
#include "types.h"

#pragma GCC visibility push(hidden)

/* ---- lock: a futex mutex; never held across anything that may allocate ---- */
#if GB_THREADS
void gb_lock_take(gb_lock *lock);
void gb_lock_drop(gb_lock *lock);
#else
GB_INLINE void gb_lock_take(gb_lock *lock) { (void)lock; }
GB_INLINE void gb_lock_drop(gb_lock *lock) { (void)lock; }
#endif
bool gb_lock_try(gb_lock *lock);
/* From here on, until as many calls with `false`, this thread, which holds every lock, does not take or drop any. */
void gb_lock_fork(bool begins);

/* ---- report: misuse and exhaustion ----
 * One line on stderr with the call, the address and what is known of it; then abort, or go on if the option says so. */
GB_COLD void gb_report(const char *call, const void *address, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* What is wrong with `address` as an argument of `call`, as far as it can be known. */
GB_COLD void gb_report_address(const char *call, const void *address);
/* ENOMEM and NULL, counted. */
GB_COLD void *gb_out_of_memory(void);
/* `text` cut to `bytes`, with ? for what would break a line, and for each character of `but`. */
void gb_plain(char *out, size_t bytes, const char *text, const char *but);
char *gb_decimal(uint64_t value, char *out24);
/* A small printf (%s %zu %u %p), that does not allocate or lock. Returns the length of the whole. */
size_t gb_format(char *out, size_t bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- account: what is in use, and limits. Locked. ---- */
/* Do the heap's and the process's limit allow so many bytes more? */
bool gb_account_allows(glebe_heap *heap, size_t bytes);
/* Counts `bytes` against the heap's and the process's limit; false, and nothing counted, where it would pass one. */
bool gb_account(glebe_heap *heap, size_t bytes, uint64_t *statistic);
void gb_unaccount(glebe_heap *heap, size_t bytes, uint64_t *statistic);
/* What was counted was served; the peak is of that alone. */
void gb_account_kept(void);
uint64_t *gb_statistic(enum gb_kind kind);

/* ---- arena, or linear: the region, runs of slices ---- */
bool gb_region_start(void); /* once; false: no address space */
/* The bits of collected objects, of so many chunks. */
GB_INLINE size_t gb_bits_bytes(uint32_t chunks) { return (size_t)chunks * GB_CHUNK_SLICES * (GB_SLICE_BITS / 8); }
/* A run of `slices` slices in one chunk, at a multiple of `alignment` slices, with its entries written: its head, of a
 * large block its record; or NULL if there is no memory or a limit stands against it. *zero: it is known to read as
 * zero. */
gb_page *gb_run_take(glebe_heap *heap, enum gb_kind kind, uint32_t slices, uint32_t alignment, bool *zero);
bool gb_run_fits(uint32_t slices); /* without more memory (linear) */
/* Where memory is linear: lets it grow until a free block of so many bytes is at its end. */
bool gb_memory_grow(size_t bytes);
/* From here on slices have bits for the collector's objects; false: there is no memory for them. */
bool gb_bits_start(glebe_gc *gc);
/* It has no object any more. */
void gb_bits_end(glebe_gc *gc);
void gb_run_give(gb_page *page);
/* Moves the end of a large block's run in place; false if the slices behind it are not free. */
bool gb_run_resize(gb_page *page, uint32_t slices);
/* Locked: other slices of its free ones are dirty now. */
void gb_chunk_dirty_changed(gb_chunk *chunk);
/* Locked: commits metadata from `start` up to `need` bytes. */
bool gb_meta_commit(const void *start, size_t *committed, size_t need);
/* Locked: where address space is limited, gives that of a wholly free chunk back; false if it is not wholly free. */
bool gb_chunk_leave(gb_chunk *chunk);
/* Locked: asks for a huge page for 2 MiB that were never touched, if huge pages are quick to come. */
bool gb_huge_page_ask(uintptr_t at);

/* ---- purge: what gives memory back ---- */
/* Locked: memory of this chunk was freed. */
void gb_purge_queue(gb_chunk *chunk);
/* As above, for callers without the lock: cheap if it is queued already. */
void gb_purge_note(const gb_page *page);
/* Purges what is due at `now`, lazily if the option says so; `all`: everything, due or not, and at once. Returns the
 * bytes given back. */
size_t gb_purge_due(uint32_t now, bool all);
/* Purges as much of what was freed at `since` or before as a request may wait for. False: there is no more. */
bool gb_purge_step(uint32_t since);
/* Locked: purges free runs and idle extents, those that have waited longest first, until `bytes` are given back or
 * nothing is left. Returns what was. */
size_t gb_purge_oldest(size_t bytes);
/* Milliseconds until something is due; UINT32_MAX if nothing waits. */
uint32_t gb_purge_wait(uint32_t now);
/* Claims one hole of a small page, which has one, for use: its unit. */
unsigned gb_hole_take(gb_page *page);
/* Adds holes to a small page, and purges them `now` or when their time has come. Its links must not lie in them. */
void gb_hole_give(gb_page *page, uint32_t units, bool now);

/* ---- hole: memory of small pages that goes back although other blocks of the page are in use ---- */
/* Blocks of the class that touch a unit in `units` (a bit mask), among those carved. */
uint32_t gb_hole_blocks(const gb_page *page, uint32_t units);
/* The blocks of one hole, linked, and counted as out. NULL if none touches that unit alone: then its neighbours hold
 * them. */
gb_block *gb_hole_carve(gb_page *page);
/* Finds the page's holes by a walk. `coming` of its blocks are on its list and count as out still. Returns how many
 * free blocks were behind a link that was written over (secure build): they count as out from now on. Owner. */
uint32_t gb_page_trim(gb_page *page, uint32_t coming, bool now);
/* The same, and again with each block that is freed from now on. The page is on an AVAIL list, all carved, of four
 * slices. Owner. */
void gb_page_park(gb_page *page);
void gb_page_unpark(gb_page *page);
/* A block of a parked page is free; false if it was before. The caller counts it. Owner. */
bool gb_parked_put(gb_page *page, gb_block *block);
/* The same for any small page; what was free before is reported as a free. */
bool gb_page_put(gb_page *page, gb_block *block);

/* ---- mixed: the page that a program's heap begins with ---- */
/* NULL: it has none now. */
gb_page *gb_mixed_page(const glebe_heap *heap);
/* Puts blocks on an empty front; false if the heap has no such page, or that is full. Owner. */
bool gb_mixed_supply(glebe_heap *heap, uint32_t cls);
/* gb_page_locate for a mixed page: cls is GB_MIXED if no block was carved there. */
gb_place gb_mixed_locate(const gb_page *page, size_t offset);
/* The class of the block that starts there; GB_MIXED if none does. */
uint32_t gb_mixed_class(const gb_page *page, const void *block);
/* How many bytes its blocks have on the average. */
size_t gb_mixed_mean(const gb_page *page);
/* Gives the page back if it is empty, or anyway. Owner. */
void gb_mixed_give(glebe_heap *heap, bool anyway);

/* ---- page: small pages ---- */
/* Which block of a small or medium page the byte at `offset` is in. */
GB_INLINE gb_place gb_page_locate(const gb_page *page, size_t offset)
{
    if (GB_MIXES && page->cls == GB_MIXED)
        return gb_mixed_locate(page, offset);
    uint32_t cls = page->cls, index = gb_class_index(cls, offset);
    bool carved = index < __atomic_load_n(&page->bump, __ATOMIC_RELAXED); /* its owner may be at it */
    return (gb_place){cls, index, (uint32_t)offset - index * gb_classes[cls].bytes, carved};
}
/* A run for a page of this class, large or small as the heap's demand is. */
gb_page *gb_page_run(glebe_heap *heap, enum gb_kind kind, uint32_t cls, bool *zero);
/* page->left reached 0. Owner. */
GB_NOINLINE void gb_page_event(gb_page *page);
/* `count` blocks were put on page->free by other means than free(). Owner. */
void gb_page_returned(glebe_heap *heap, gb_page *page, uint32_t count);
/* Is it of no thread now? Its pages wait for heaps that need some. */
bool gb_heap_abandoned(const glebe_heap *heap);
/* Blocks out of the page. Owner, or at rest. */
uint32_t gb_page_out(const gb_page *page);
/* Sends the fronts home. Owner. */
void gb_fronts_flush(glebe_heap *heap);
/* Small pages with room for others: on to their class's list, and off it. Owner. */
void gb_avail_add(glebe_heap *heap, gb_page *page);
void gb_avail_remove(glebe_heap *heap, gb_page *page);
/* A step of giving back: looks for holes in AVAIL pages that were not looked at since their blocks were freed.
 * False: there is none left. The fronts are empty. Owner. */
bool gb_heap_look(glebe_heap *heap);
/* Gives `most` spare pages back; false if there was none. Owner. */
bool gb_spares_give(glebe_heap *heap, uint32_t most);
/* Its thread has ended: pages without a block out go back, and current ones are where others look for pages with
 * room. The fronts are empty. Owner. */
void gb_heap_settle(glebe_heap *heap);
void gb_medium_settle(glebe_heap *heap);
/* Finds holes in AVAIL pages and gives spare pages back. Owner. */
void gb_heap_trim(glebe_heap *heap);

/* ---- medium: pages whose free blocks are bits ---- */
/* A block of the current page of request->cls; NULL: it has none. Owner. */
void *gb_medium_claim(glebe_heap *heap, gb_request *request);
gb_source gb_medium_source;
/* Takes the block back; false if none in use starts there. `self` is a heap that the caller owns. */
bool gb_medium_return(glebe_heap *self, gb_page *page, void *block);
/* The bits of all its blocks. */
GB_INLINE uint32_t gb_medium_all(const gb_page *page)
{
    return page->cap == 32 ? ~(uint32_t)0 : ((uint32_t)1 << page->cap) - 1;
}
/* Other threads freed `count` of the page's blocks. Owner. */
void gb_medium_returned(glebe_heap *heap, gb_page *page, uint32_t count);
/* Sends the warm blocks home. Owner. */
void gb_medium_cool(glebe_heap *heap);
void gb_medium_trim(glebe_heap *heap);

/* ---- large and huge: blocks of their own ---- */
gb_source gb_large_source, gb_huge_source;
/* The large block that begins there grows or shrinks in place; false if it cannot. */
bool gb_large_resize(void *block, size_t bytes);
/* Zero again, from the block's start. Parts of which little is resident go back: written, they would be. */
void gb_huge_clear(void *start, size_t bytes);
void gb_huge_free(gb_extent *extent);
/* Grows or shrinks in place, or moves without copying; the block's address, or NULL and nothing changed. */
void *gb_huge_resize(gb_extent *extent, size_t bytes);
/* The extent of the block that starts at `address`; NULL if there is none. */
gb_extent *gb_huge_find(const void *address);

/* ---- span: huge pages of extents. Locked ---- */
/* States for the spans before this address; false: there is no memory for them. */
bool gb_spans_reach(uintptr_t end);
/* Is memory touched densely, as far as the samples before this address tell? */
bool gb_spans_dense(uintptr_t top);
/* Space that was never touched was committed: its whole spans ask for huge pages. */
void gb_spans_ask(uintptr_t from, uintptr_t end);
/* Did the span that begins there ask for one? */
bool gb_span_huge(uintptr_t at);
/* This memory went back, and is one free extent with the rest of [from, end), which did before. */
void gb_spans_purged(uintptr_t at, size_t bytes, uintptr_t from, uintptr_t end);
/* This memory is not mapped any more. */
void gb_spans_decommitted(uintptr_t at, size_t bytes);

/* ---- extent: address space of huge blocks. Locked, but for the first two ---- */
/* The extent that `address` is in, in use or not; NULL where none was handed out. */
gb_extent *gb_extent_of(const void *address);
uintptr_t gb_extent_start(const gb_extent *extent);
/* An extent of a block of `bytes`, in whole OS pages, which are committed; NULL if there is no memory or no space. */
gb_extent *gb_extent_take(size_t bytes, size_t alignment, const gb_extent_place *place);
void gb_extent_give(gb_extent *extent);
/* Its pages were to be moved here, and were not: `lost` bytes from its start are not ours any more. */
void gb_extent_lost(gb_extent *extent, size_t lost);
/* Room for `bytes` where it is; false, and nothing changed, if there is none. */
bool gb_extent_extend(gb_extent *extent, size_t bytes);
/* The block has so many bytes from now on. */
void gb_extent_cut(gb_extent *extent, size_t bytes);
/* Gives idle memory back that has waited since `since`, or all. */
size_t gb_extents_purge(uint32_t since, bool all, bool lazily, size_t *budget_bytes);
/* So many bytes at once, of what has waited longest. Returns what was given back. */
size_t gb_extents_shrink(size_t bytes);
/* Until the first is due. */
uint32_t gb_extents_wait(uint32_t now);
/* The program may have set a limit on its address space, or taken it back. */
void gb_limit_look(void);

/* ---- tagged: blocks of any size where memory is linear ---- */
gb_source gb_tagged_source;
/* Takes the block back. Where none in use starts there that is reported as a free: an answer would cost fuel, and
 * wasm prints nothing. */
void gb_tagged_free(uintptr_t start);
/* The block at c, its tag in front of it, is free from now on, together with what is free on either side. */
void gb_tagged_give(gb_tagged *c);
/* [c, c + bytes) becomes free, between blocks in use; and is not on a list any more. Where code must be short. */
void gb_tagged_add(gb_tagged *c, uint32_t bytes);
void gb_tagged_remove(gb_tagged *c);
/* The block that was freed last becomes free. */
void gb_tagged_cool(void);
/* Bytes usable at a block; 0 where none starts. */
size_t gb_tagged_usable(uintptr_t start);
/* Shrinks or grows in place; false, and nothing changed, where that cannot be. */
bool gb_tagged_resize(uintptr_t start, size_t bytes);
glebe_heap *gb_tagged_heap(const gb_tagged *c);
/* The heap of the block in use whose bytes begin there; NULL where none does. */
glebe_heap *gb_tagged_owner(uintptr_t start);

/* ---- remote: frees across threads ---- */
/* `from` is the caller's own heap, which collects before it sends. */
void gb_remote_free(glebe_heap *from, gb_page *page, gb_block *block);
void gb_remote_flush(glebe_heap *from);
/* Splices a chain on a page of another heap and tells its owner. */
void gb_remote_send(gb_page *page, gb_block *first, gb_block *last, uint32_t count);
void gb_remote_notify(gb_page *medium);
/* Is the page of a heap that has no thread since a fork? For who holds a block of it. */
bool gb_heap_dead(const gb_page *page);
/* Takes in what others freed of one page, and clears its queued bit. Owner. */
void gb_page_accept(glebe_heap *heap, gb_page *page);
/* The same for all pages in the inbox; true if there was one. Owner. */
bool gb_inbox_drain(glebe_heap *heap);
/* For some of them: in a request. */
void gb_inbox_drain_some(glebe_heap *heap);
GB_INLINE bool gb_inbox_filled(const glebe_heap *heap)
{
    return GB_THREADS && (gb_load_relaxed(&heap->inbox) || heap->inbox_taken);
}
/* Did the purger take the page while its owner slept? */
GB_INLINE bool gb_page_purged(const gb_page *page)
{
    if (!GB_PURGES)
        return false;
    return page->kind == GB_SMALL ? (gb_load_relaxed(&page->xfree) & GB_XFREE_PURGED) != 0
        : page->kind == GB_MEDIUM && (gb_load_relaxed(&page->notify) & GB_NOTIFY_PURGED);
}
/* The purger takes a page of which every block was freed and whose owner has not looked yet: true if it may. Locked.
 * Small: with `only_seen`, only on the second call, if the owner did not look in between. Medium: all its bits are
 * held. */
bool gb_small_claim_whole(gb_page *page, bool only_seen);
bool gb_medium_claim_whole(gb_page *page);
/* It could not be purged: the page is as it was. Locked. A medium page's bits are still held. */
void gb_page_unclaim(gb_page *page);
/* Tries to make a page of a heap at rest ours: false if its frees are under way. Under the orphans' lock. */
bool gb_page_steal(glebe_heap *thief, gb_page *page);

/* ---- thread: which heap is whose ---- */
#if GB_THREADS
extern GB_TLS glebe_heap *gb_self; /* this thread's heap, or gb_heap_none */
#else
#define gb_self (&gb_heap_main)
#endif
extern glebe_heap gb_heap_none; /* always empty: sends the first malloc of a thread to the slow path */
/* This thread's heap, made or adopted at the first call; NULL if there is no memory for one. */
GB_COLD glebe_heap *gb_thread_start(void);
/* gb_thread_exit was called in this thread. */
extern GB_TLS bool gb_thread_ended;
/* After what was served with it: parks it again at once if this thread has ended already. */
void gb_thread_late(void);
/* What this thread left by gb_thread_leave, and will return to. */
extern GB_TLS glebe_heap *gb_thread_left;
/* Is this thread between the next two? */
bool gb_thread_away(void);
/* From here on this thread has no heap (until it returns to it, or takes another by its next malloc, which is parked
 * then). */
glebe_heap *gb_thread_leave(void);
void gb_thread_return(glebe_heap *heap);
glebe_heap *gb_heap_new(enum gb_heap_kind kind);
void gb_heap_retire(glebe_heap *heap); /* its number may be used again */
/* All heaps but unused ones, by their numbers; NULL: the first, or no more. */
glebe_heap *gb_heap_next(const glebe_heap *before);
/* The heap, of a thread or of the program, has no owner any more: its blocks live on, and what is free in it is for
 * others. Owner. */
void gb_heap_orphan(glebe_heap *heap);
/* Takes pages of this class that orphans have to give. Owner. */
bool gb_orphans_rob(glebe_heap *heap, uint32_t cls);
/* No thread works in abandoned heaps: all that they hold in fronts and spare pages goes to the arena. Returns the
 * bytes. */
size_t gb_orphans_trim(void);
/* Blocks that others freed go to the pages of the next abandoned heaps; the empty pages of these go to the arena. */
void gb_orphans_drain(void);
/* A step: gb_heap_look for the next abandoned heap that has pages to look at. False: none has. */
bool gb_orphans_look(void);

/* ---- pressure: the program's callback ---- */
/* Calls it; false: there is none, or this thread is in it. Owner of no lock. */
bool gb_pressure_tell(uint64_t used, uint64_t limit);

/* ---- retain: what freed memory is kept, and when it goes back ---- */
/* Called by every slow allocation. Every few calls it looks at the clock, and gives some memory back. Owner. */
void gb_tick(glebe_heap *heap);
GB_NOINLINE void gb_tick_due(glebe_heap *heap);
/* Gives back what can be given back, so that a request may be tried again; false if nothing changed. Owner. */
bool gb_make_room(glebe_heap *heap);
/* All that this heap and abandoned ones keep goes back, and all that is free. Returns the bytes given back to the
 * system. Owner. */
size_t gb_retain_nothing(glebe_heap *heap);
/* May the heap keep a page of so many bytes that became empty? Owner. */
bool gb_retain_spare(const glebe_heap *heap, size_t bytes);
/* May a page that empties be searched for holes now? Owner. */
bool gb_retain_may_look(glebe_heap *heap);
/* So many bytes are about to be taken for the heap. Owner. */
void gb_retain_grows(glebe_heap *heap, size_t bytes);
/* They were. Owner. */
void gb_retain_grew(glebe_heap *heap);
/* Locked: memory that was not resident is about to be touched. */
void gb_retain_touched(void);
/* Locked: memory of extents became idle. */
void gb_retain_extents(void);
/* A collection ended. */
void gb_retain_collected(void);
/* The background thread, if it is wanted and does not run. */
void gb_background_start(void);
/* Locked: something waits to be given back where nothing did. */
void gb_background_nudge(void);
/* In fork's child: starts again with the next tick. */
void gb_background_forked(void);

/* ---- slow: what the spine in slow.h calls by a pointer ---- */
/* The source had nothing. */
GB_COLD void *gb_serve_again(glebe_heap *heap, gb_source *source, gb_request *request);
/* The thread has no heap. */
GB_COLD void *gb_serve_first(gb_source *source, gb_request *request);

/* ---- alloc, free: the fast paths are in alloc.h; this is what they fall back to ---- */
/* front[cls] is empty. */
void *gb_small_refill(glebe_heap *heap, size_t cls);
/* Over 2 KiB. */
void *gb_alloc_big(glebe_heap *heap, size_t bytes);
/* The same. *dirty: so many bytes from its start may not be zero. */
void *gb_alloc_dirty(glebe_heap *heap, size_t bytes, size_t *dirty);
void *gb_alloc_aligned(glebe_heap *heap, size_t alignment, size_t bytes);
/* Of a medium class, or none: a block of the current page, else what the slow path finds. */
void *gb_alloc_beyond(glebe_heap *heap, size_t bytes, size_t alignment, uint32_t cls, size_t *dirty);
/* What free() does with an address in no chunk, and with one in a slice that is not `self`'s. */
GB_NOINLINE void gb_free_elsewhere(const char *call, void *block);
/* The same, of a block in a page, small or of a large block's. */
GB_NOINLINE void gb_free_page(glebe_heap *self, gb_page *page, void *block, const char *call);
GB_NOINLINE void gb_free_unowned(glebe_heap *self, gb_page *entry, void *block, const char *call);
/* Bytes usable at a block; 0 where the address is not the start of one, which is reported under the name `call`. */
size_t gb_block_bytes(const char *call, const void *block);
/* What the caller says of a block that it frees; false, and reported, where it is surely wrong. A block may be
 * larger than was asked for, and an aligned one by a lot, so that is a size which the block cannot hold. */
bool gb_size_fits(const char *call, const void *block, size_t bytes);
bool gb_alignment_fits(const char *call, const void *block, size_t alignment);
/* The fast paths out of line: see gb_alloc_seldom. */
GB_NOINLINE void *gb_alloc_any(glebe_heap *heap, size_t bytes);
GB_NOINLINE void gb_free_any(const char *call, glebe_heap *self, void *block);
void *gb_realloc(const char *call, glebe_heap *self, void *block, size_t bytes);

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

/* ---- pool ---- */
/* Is [at, at + units) in what the pool gave out since it was made or reset, and does it start where a unit does? */
bool gb_pool_holds(const gb_pool *pool, uintptr_t at, size_t units);
/* The end of what was given out of a span, and the next span of which something was. */
GB_INLINE uintptr_t gb_pool_carved(const gb_pool *pool, const gb_span *span)
{
    return span == pool->current ? pool->fresh : span->end;
}
GB_INLINE gb_span *gb_pool_next(const gb_pool *pool, const gb_span *span)
{
    return span == pool->current ? NULL : span->next;
}
/* Pools take memory piece by piece: where address space is short they are not one piece. */
#define GB_POOL_SPANS (GB_LINEAR || sizeof(void *) == 4)
#define GB_POOL_POISON 0xdb /* free objects are filled with it (audit build) */
/* In the audit build's states of a pool: 0 inside an object, else its units, and whether it is in use. */
#define GB_POOL_USED 0x8000u
#define GB_POOL_UNITS_MAX 1024

/* ---- options, statistics ---- */
/* Bytes of all blocks in use but huge ones, as far as this thread can tell: free blocks that other threads' heaps
 * keep at hand, or have not sent home yet, count as in use. Takes a look at every page. */
size_t gb_blocks_bytes(void);
void gb_options_read(void);

/* ---- secure and audit builds: what they check of a small block ---- */
/* false, and reported, where this block of a small page cannot be freed; else it is marked as free. */
bool gb_free_allowed(const char *call, const gb_page *page, void *block);
/* Marks a block as free. */
void gb_secure_stamp(gb_block *block);
/* A block leaves the front: it must carry its stamp, and its link must lead into its own page. Clears both; returns
 * the link, or NULL where it leads astray. */
gb_block *gb_secure_out(gb_block *block, gb_block *next);
/* The next block of a chain of this page's, or NULL: a link that leads astray is reported, and cut. */
gb_block *gb_secure_next(const gb_page *page, gb_block *block);
void gb_secure_cut(const gb_page *page, gb_block *block);
/* gb_link_get for those who walk along a chain. */
GB_INLINE gb_block *gb_link_next(const gb_page *page, gb_block *block)
{
    return GB_SECURE ? gb_secure_next(page, block) : gb_link_get(block);
}
/* Is this block in use, as far as the build can tell? */
bool gb_block_in_use(const gb_page *page, const void *block);
/* Where the block of malloc's begins that `address` is in, in use or not; 0: it is in none. */
uintptr_t gb_block_start(const void *address);
void gb_audit_born(const void *block);
bool gb_audit_alive(const void *block);
/* Memory was freed with whatever blocks were in it. */
void gb_audit_wipe(uintptr_t start, size_t bytes);
bool gb_audit_died(const void *block);

#pragma GCC visibility pop

#endif
