/* The region layer: address space, runs of slices, extents, and the queue of chunks that wait for purging. "Locked"
 * at a function means that the caller holds gb_the.lock. */
#ifndef GB_REGION_H
#define GB_REGION_H

#include "../base/base.h"
#include "page_map.h"

#pragma GCC visibility push(hidden)

/* ---- account: memory in use, and limits. Locked. ---- */
/* Returns whether the limits of the heap and of the process allow `bytes` more. */
bool gb_account_allows(glebe_heap *heap, size_t bytes);
/* Counts `bytes` for the heap and the process. Returns false, and counts nothing, if that would pass a limit. */
bool gb_account(glebe_heap *heap, size_t bytes, uint64_t *statistic);
void gb_unaccount(glebe_heap *heap, size_t bytes, uint64_t *statistic);
/* Called when the counted memory was handed out: updates the peak, which ignores requests that failed. */
void gb_account_kept(void);
/* Not locked. Looks at the limits, for the snapshot, if that is due. The caller holds no lock. */
GB_INLINE void gb_watch_poll(void)
{
    if (GB_SNAPSHOTS && GB_UNLIKELY(gb_load_relaxed(&gb_the.watch.due)))
        gb_the.watch.look(0);
}
uint64_t *gb_statistic(enum gb_kind kind);

/* ---- queue: chunks that wait for the purger, and the call that purges ---- */
/* Locked. Wakes the background thread. Called when memory joins an empty queue. */
void gb_background_nudge(void);
/* Locked. Called when memory of this chunk was freed. */
void gb_purge_queue(gb_chunk *chunk);
/* gb_purge_queue for callers without the lock. Cheap if the chunk is queued already. */
void gb_purge_note(const gb_page *page);
/* A budget without bounds. */
GB_INLINE gb_purge_budget gb_purge_all(void) { return (gb_purge_budget){SIZE_MAX, UINT32_MAX, false}; }
GB_INLINE bool gb_purge_spent(const gb_purge_budget *budget) { return budget->bytes == 0 || budget->calls == 0; }
/* Locked. Purges whole OS pages, counts them, and takes the cost off the budget. */
enum gb_purge gb_purge_range(uintptr_t at, size_t bytes, bool lazily, gb_purge_budget *budget);

/* ---- pages ---- */
/* Returns whether the purger took the page before its owner accepted the remote frees. */
GB_INLINE bool gb_page_purged(const gb_page *page)
{
    if (!GB_PURGES)
        return false;
    return page->kind == GB_SMALL ? (gb_load_relaxed(&page->xfree) & GB_XFREE_PURGED) != 0
        : page->kind == GB_MEDIUM && (gb_load_relaxed(&page->notify) & GB_NOTIFY_PURGED);
}

/* ---- arena, or linear: the region, and runs of slices ---- */
bool gb_region_start(void); /* sets the region up once; false: no address space */
/* Bytes of the object bits of `chunks` chunks. */
GB_INLINE size_t gb_bits_bytes(uint32_t chunks) { return (size_t)chunks * GB_CHUNK_SLICES * (GB_SLICE_BITS / 8); }
/* Takes a run of `slices` slices in one chunk, at a multiple of `alignment` slices, and writes its entries. Returns
 * the page's head or the large block's record, or NULL if there is no memory or a limit forbids it. *zero: the run
 * is known to be zero. */
gb_page *gb_run_take(glebe_heap *heap, enum gb_kind kind, uint32_t slices, uint32_t alignment, bool *zero);
/* Takes a run of `least` to `most` slices likewise: `most`, unless only a shorter run needs no untouched memory, or
 * memory ends. */
gb_page *gb_run_take_some(glebe_heap *heap, enum gb_kind kind, uint32_t least, uint32_t most, bool *zero);
/* Locked. Returns whether a run of so many touched slices is free. */
bool gb_run_touched(uint32_t slices);
/* Linear memory: returns whether a run of so many slices is free, so that memory need not grow. */
bool gb_run_fits(uint32_t slices);
/* Grows linear memory until a free block of `bytes` is at its end. */
bool gb_memory_grow(size_t bytes);
/* Commits the collector's object bits of all slices. Returns false if there is no memory for them. */
bool gb_bits_start(glebe_gc *gc);
/* Called when the collector has no object any more. */
void gb_bits_end(glebe_gc *gc);
void gb_run_give(gb_page *page);
/* Moves the end of a large block's run in place. Returns false if the slices behind it are in use. */
bool gb_run_resize(gb_page *page, uint32_t slices);
/* Locked. Called when the set of dirty free slices of the chunk has changed. */
void gb_chunk_dirty_changed(gb_chunk *chunk);
/* Locked. Commits a table from `start` up to `need` bytes. */
bool gb_meta_commit(const void *start, size_t *committed, size_t need);
/* Locked. Where address space is limited, returns that of a free chunk to the host. Returns false if the chunk is
 * not wholly free. */
bool gb_chunk_leave(gb_chunk *chunk);
/* Locked. Asks for a huge page for 2 MiB that were never touched, if huge pages arrive quickly. */
bool gb_huge_page_ask(uintptr_t at);

/* ---- span: huge pages of extents. Locked ---- */
/* Makes room for the states of spans before `end`. Returns false if there is no memory. */
bool gb_spans_reach(uintptr_t end);
/* Returns whether memory is touched densely, judged by the samples before `top`. */
bool gb_spans_dense(uintptr_t top);
/* Called when new space was committed: each whole span in it asks for a huge page. */
void gb_spans_ask(uintptr_t from, uintptr_t end);
/* Returns whether the span at this address asked for a huge page. */
bool gb_span_huge(uintptr_t at);
/* Called when [at, at + bytes) was purged. It is now part of a free extent [from, end), which is purged as a whole. */
void gb_spans_purged(uintptr_t at, size_t bytes, uintptr_t from, uintptr_t end);
/* Called when this memory was unmapped. */
void gb_spans_decommitted(uintptr_t at, size_t bytes);

/* ---- extent: address space of huge blocks. Locked, except the first two functions ---- */
/* Returns the extent that `address` is in, free or in use; NULL if no extent was ever there. */
gb_extent *gb_extent_of(const void *address);
uintptr_t gb_extent_start(const gb_extent *extent);
/* Takes an extent for a block of `bytes`, in whole OS pages, and commits it. Returns NULL if there is no memory or
 * no address space. */
gb_extent *gb_extent_take(size_t bytes, size_t alignment, const gb_extent_place *place);
void gb_extent_give(gb_extent *extent);
/* Returns whether an idle extent is long enough, and gb_extent_take would find it for the same place. */
bool gb_extent_idle(size_t bytes, size_t behind);
/* Returns whether a block of this extent could grow to `bytes` in place, into memory that is resident. */
bool gb_extent_resident(const gb_extent *extent, size_t bytes);
/* Called when OS pages could not be moved to this extent. Its first `lost` bytes no longer belong to the region. */
void gb_extent_lost(gb_extent *extent, size_t lost);
/* Makes room for `bytes` in place. Returns false if there is none; the extent and its block are then unchanged. */
bool gb_extent_extend(gb_extent *extent, size_t bytes);
/* Shortens the block to `bytes`. */
void gb_extent_cut(gb_extent *extent, size_t bytes);
/* Purges extents that became idle at `since` or before; with `all`, all idle ones. Returns the bytes purged. */
size_t gb_extents_purge(uint32_t since, bool all, bool lazily, size_t *budget_bytes);
/* Purges idle extents now, oldest first, up to `bytes`. Returns the bytes purged. */
size_t gb_extents_shrink(size_t bytes);
/* Returns the milliseconds until the first idle extent is due. */
uint32_t gb_extents_wait(uint32_t now);
/* Checks whether the program set or removed a limit on its address space. */
void gb_limit_look(void);

#pragma GCC visibility pop

#endif
