/* Where memory comes from: address space, runs of slices, extents; and the queue of what waits to go back. */
#ifndef GB_REGION_H
#define GB_REGION_H

#include "../base/base.h"
#include "page_map.h"

#pragma GCC visibility push(hidden)

/* ---- account: what is in use, and limits. Locked. ---- */
/* Do the heap's and the process's limit allow so many bytes more? */
bool gb_account_allows(glebe_heap *heap, size_t bytes);
/* Counts `bytes` against the heap's and the process's limit; false, and nothing counted, where it would pass one. */
bool gb_account(glebe_heap *heap, size_t bytes, uint64_t *statistic);
void gb_unaccount(glebe_heap *heap, size_t bytes, uint64_t *statistic);
/* What was counted was served; the peak is of that alone. */
void gb_account_kept(void);
uint64_t *gb_statistic(enum gb_kind kind);

/* ---- queue: chunks that wait for the purger, and the call that gives memory back ---- */
/* Locked: memory of this chunk was freed. */
void gb_purge_queue(gb_chunk *chunk);
/* As above, for callers without the lock: cheap if it is queued already. */
void gb_purge_note(const gb_page *page);
/* Without bounds. */
GB_INLINE gb_purge_budget gb_purge_all(void) { return (gb_purge_budget){SIZE_MAX, UINT32_MAX, false}; }
GB_INLINE bool gb_purge_spent(const gb_purge_budget *budget) { return budget->bytes == 0 || budget->calls == 0; }
/* Locked: whole OS pages. Counts, and takes the cost off the budget. */
enum gb_purge gb_purge_range(uintptr_t at, size_t bytes, bool lazily, gb_purge_budget *budget);

/* ---- pages ---- */
/* Did the purger take the page while its owner slept? */
GB_INLINE bool gb_page_purged(const gb_page *page)
{
    if (!GB_PURGES)
        return false;
    return page->kind == GB_SMALL ? (gb_load_relaxed(&page->xfree) & GB_XFREE_PURGED) != 0
        : page->kind == GB_MEDIUM && (gb_load_relaxed(&page->notify) & GB_NOTIFY_PURGED);
}

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

#pragma GCC visibility pop

#endif
