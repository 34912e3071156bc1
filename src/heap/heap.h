/* Blocks of every size, in pages and extents of one heap; and which heap is whose. */
#ifndef GB_HEAP_H
#define GB_HEAP_H

#include "../region/region.h"

#pragma GCC visibility push(hidden)

/* ---- address: from an address to its block ---- */
/* Is this block in use, as far as the build can tell? */
bool gb_block_in_use(const gb_page *page, const void *block);
/* Where the block of malloc's begins that `address` is in, in use or not; 0: it is in none. */
uintptr_t gb_block_start(const void *address);
/* What is wrong with `address` as an argument of `call`, as far as it can be known. */
GB_COLD void gb_report_address(const char *call, const void *address);

/* ---- secure and audit builds: what they check of a small block ---- */
/* false, and reported, where this block of a small page cannot be freed; else it is marked as free. */
bool gb_free_allowed(const char *call, const gb_page *page, void *block);
/* Marks a block as free. */
void gb_secure_stamp(gb_block *block);
bool gb_secure_stamped(const gb_block *block);
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

/* ---- hole: memory of small pages that goes back although other blocks of the page are in use ---- */
/* Claims one hole of a small page, which has one, for use: its unit. */
unsigned gb_hole_take(gb_page *page);
/* Locked: purges the page's holes. Returns the bytes given back. */
size_t gb_holes_purge(gb_page *page, bool lazily, gb_purge_budget *budget);
/* Blocks of the class that touch a unit in `units` (a bit mask), among those carved. */
uint32_t gb_hole_blocks(const gb_page *page, uint32_t units);
/* The blocks of a hole, linked, and counted as out; of the first that has some: its neighbours may hold those of a hole.
 * NULL: the page has no hole any more. */
gb_block *gb_hole_carve(gb_page *page);
/* Finds the page's holes by a walk, and purges them `now` or when their time has come. `coming` of its blocks are on
 * its list and count as out still. Returns how many free blocks were behind a link that was written over (secure
 * build): they count as out from now on. Owner. */
uint32_t gb_page_trim(gb_page *page, uint32_t coming, bool now);
/* The same, and again with each block that is freed from now on. The page is on an AVAIL list, all carved, of four
 * slices. Owner. */
void gb_page_park(gb_page *page);
void gb_page_unpark(gb_page *page);
/* A block of a parked page is free; false if it was before. The caller counts it. Owner. */
bool gb_parked_put(gb_page *page, gb_block *block);
/* The same for any small page; what was free before is reported as a free. */
bool gb_page_put(gb_page *page, gb_block *block);

/* ---- look: when a small page is searched for holes. Owner. ---- */
enum { GB_MARKS = 64 };
/* Blocks that are out of an AVAIL page when `left` is 0. */
GB_INLINE uint32_t gb_page_mark(const gb_page *page)
{
    return page->mark && page->mark != GB_PARKED ? page->cap * (page->mark - 1u) / GB_MARKS : 0;
}
/* A page with `out` blocks in use counts down to its first mark. */
void gb_page_mark_first(gb_page *page, uint32_t out);
/* An AVAIL page reached its mark. `coming` blocks are on its list and not counted yet. */
void gb_page_mark_reached(glebe_heap *heap, gb_page *page, uint32_t coming);
/* A step of giving back: looks for holes in AVAIL pages that were not looked at since their blocks were freed, and
 * purges them. False: there is none left. The fronts are empty. */
bool gb_heap_look(glebe_heap *heap);
/* The same of all pages, whose holes are purged when their time has come. */
void gb_heap_look_all(glebe_heap *heap);

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
/* The heap is about to take so many bytes. Before it becomes larger than it ever was, what it kept for reuse by some
 * class becomes free for all. Owner. */
void gb_heap_grows(glebe_heap *heap, size_t bytes);
/* Blocks out of the page. Owner, or at rest. */
uint32_t gb_page_out(const gb_page *page);
/* Sends the fronts home. Owner. */
void gb_fronts_flush(glebe_heap *heap);
/* Small pages with room for others: on to their class's list, and off it. Owner. */
void gb_avail_add(glebe_heap *heap, gb_page *page);
void gb_avail_remove(glebe_heap *heap, gb_page *page);
/* An empty page, on no list, goes to the arena. */
void gb_page_give(glebe_heap *heap, gb_page *page);
/* Gives `most` spare pages back; false if there was none. Owner. */
bool gb_spares_give(glebe_heap *heap, uint32_t most);
/* Its thread has ended: pages without a block out go back, and current ones are where others look for pages with
 * room. The fronts are empty. Owner. */
void gb_heap_settle(glebe_heap *heap);
void gb_medium_settle(glebe_heap *heap);
/* Finds holes in AVAIL pages and gives spare pages back. Owner. */
void gb_heap_trim(glebe_heap *heap);
/* A block that leaves the front. */
GB_INLINE void *gb_hand_out(glebe_heap *heap, size_t cls, gb_block *block)
{
    gb_block *next = gb_link_get(block);
    if (GB_SECURE)
        next = gb_secure_out(block, next);
    heap->front[cls] = next;
    if (GB_AUDIT)
        gb_audit_born(block);
    return block;
}

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
/* The purger takes a page of which every block was freed and whose owner has not looked yet: true if it may. Locked.
 * Small: with `only_seen`, only on the second call, if the owner did not look in between. Medium: all its bits are
 * held. */
bool gb_small_claim_whole(gb_page *page, bool only_seen);
bool gb_medium_claim_whole(gb_page *page);
/* It could not be purged: the page is as it was. Locked. A medium page's bits are still held. */
void gb_page_unclaim(gb_page *page);
/* Tries to make a page of a heap at rest ours: false if its frees are under way. Under the lock of abandoned heaps. */
bool gb_page_reclaim(glebe_heap *heap, gb_page *page);

/* ---- thread: which heap is whose ---- */
#if GB_THREADS
extern GB_TLS glebe_heap *gb_self; /* this thread's heap, or gb_heap_none */
#else
#define gb_self (&gb_heap_main)
#endif
extern glebe_heap gb_heap_none; /* always empty: sends the first malloc of a thread to the slow path */
/* This thread's heap, made or reclaimed at the first call; NULL if there is no memory for one. */
GB_COLD glebe_heap *gb_thread_start(void);
/* gb_thread_exit was called in this thread. */
extern GB_TLS bool gb_thread_ended;
/* After what was served with it: parks it again at once if this thread has ended already. */
GB_INLINE void gb_thread_late(void)
{
    if (GB_THREADS && GB_UNLIKELY(gb_thread_ended))
        gb_thread_exit();
}
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
void gb_heap_abandon(glebe_heap *heap);
/* Takes pages of this class that abandoned heaps have to give. Owner. */
bool gb_abandoned_reclaim(glebe_heap *heap, uint32_t cls);
/* No thread works in abandoned heaps: all that they hold in fronts and spare pages goes to the arena. Returns the
 * bytes. */
size_t gb_abandoned_trim(void);
/* Blocks that others freed go to the pages of the next abandoned heaps; the empty pages of these go to the arena. */
void gb_abandoned_drain(void);
/* A step: gb_heap_look for the next abandoned heap that has pages to look at. False: none has. */
bool gb_abandoned_look(void);

#pragma GCC visibility pop

#endif
