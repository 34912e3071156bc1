/* The heap layer: blocks of every size, in the pages and extents of one heap; heaps, and the threads that own them.
 * "Owner" at a function means that only the thread that uses the heap calls it. */
#ifndef GB_HEAP_H
#define GB_HEAP_H

#include "sample.h"

#pragma GCC visibility push(hidden)

#if GB_THREADS
extern GB_TLS glebe_heap *gb_self; /* this thread's heap, or gb_heap_none */
#else
#define gb_self (&gb_heap_main)
#endif

/* ---- address: from an address to its block ---- */
/* Returns whether the block is in use, as far as the build can tell. */
bool gb_block_in_use(const gb_page *page, const void *block);
/* Returns the start of the malloc block that `address` is in, free or in use; 0: in none. */
uintptr_t gb_block_start(const void *address);
/* Reports, as exactly as the build can tell, why `address` is no valid argument of `call`. */
GB_COLD void gb_report_address(const char *call, const void *address);

/* ---- zero: blocks of no bytes (GB_ZEROS). Any thread ---- */
/* Returns a block with this alignment, a power of two; NULL if there is none, so that another block must do. */
void *gb_zero_take(size_t alignment);
/* Returns whether such a block is in use, and starts there. */
bool gb_zero_in_use(const void *block);
/* Frees such a block. Returns false if none in use starts there. */
bool gb_zero_give(const void *block);
/* Returns whether the address is where such blocks are. */
bool gb_zero_place(const void *address);
/* gb_report_address for an address there. `twice` begins the text about a block that is free. */
GB_COLD void gb_zero_report(const char *call, const void *address, const char *twice);

/* ---- guard: sampled blocks between guards (GB_SAMPLES) ---- */
/* Returns how many bytes a guarded block for the request would have; 0: it cannot be guarded. */
size_t gb_guard_wants(const gb_request *request);
/* Returns whether a slot is free. A hint. */
bool gb_guard_room(void);
/* Returns a guarded block of so many bytes, with its callers; NULL if all slots are in use. The caller holds the
 * sampler's lock. */
void *gb_guard_take(size_t bytes, const uintptr_t *callers, uint32_t count);
/* Frees such a block, or reports for `call` that none in use starts there. */
GB_COLD void gb_guard_give(const char *call, void *block);
/* Returns whether the address is where guarded blocks are. */
bool gb_guard_place(const void *address);
/* Returns the bytes and the start of the guarded block in use that the address is in; 0 if it is in none. */
size_t gb_guard_bytes(const void *address, uintptr_t *start);
/* Returns whether a guarded block in use starts there. */
GB_INLINE bool gb_guard_in_use(const void *block)
{
    uintptr_t start;
    return GB_SAMPLES && gb_guard_bytes(block, &start) && start == (uintptr_t)block;
}
/* gb_report_address for an address there. `twice` begins the text about a block that is free. */
GB_COLD void gb_guard_report(const char *call, const void *address, const char *twice);
/* What is known of the guarded block that an address belongs to; false if it belongs to none. */
typedef struct gb_guard_sight {
    uintptr_t code; /* of the access that faulted; 0: none did */
    uintptr_t start;
    size_t bytes;
    bool freed;
    const uintptr_t *allocators, *freers; /* callers, the innermost first */
    uint32_t allocators_count, freers_count;
} gb_guard_sight;
bool gb_guard_seen(const void *address, gb_guard_sight *sight);
/* Prepares for guarded blocks. Returns false if there is no address space, or the host has no handler of faults. */
bool gb_guard_open(void);

/* ---- listed: whether a small block that looks free is (GB_MARKS_LINKS) ---- */
/* Returns whether the block, which has the mark of a link, is on a list of free blocks that this thread may read. */
bool gb_block_listed(const gb_page *page, const gb_block *block);
/* free() of a block with that mark in a page of this thread's heap. Reports a double free. Owner. */
GB_NOINLINE void gb_free_suspect(gb_block *block, gb_page *page, const char *call);

/* ---- secure: checks of a small block in the secure and audit builds ---- */
/* Marks a block of a small page as free. Returns false, after a report, if it cannot be freed. */
bool gb_free_allowed(const char *call, const gb_page *page, void *block);
/* Returns what the program chose by GLEBE_SECURE: docs/security.md. */
GB_INLINE uint32_t gb_secure_level(void) { return gb_the.options.secure ? gb_the.options.secure : 2; }
/* Draws the next of a row of random numbers of 31 bits. */
GB_INLINE uint32_t gb_drawn(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}
/* Checks and clears a small block that is being freed. */
void gb_secure_clear(const char *call, const gb_page *page, void *block);
/* Clears the page of a heap that is destroyed with its blocks: no tail of a block in use may outlive it. */
void gb_secure_forget(gb_page *page);
/* Returns whether the block has the tail of a free one. */
bool gb_secure_is_free(const gb_page *page, const void *block);
/* Takes a block off a thread free list, after a report if it was written to. Returns the next one, or NULL. */
gb_block *gb_secure_out(gb_block *block, size_t cls);
/* Reports that a small block was written to while it was free, which was just taken for `bytes`. Returns it, mended. */
GB_COLD __attribute__((returns_nonnull)) void *gb_secure_written(gb_block *block, size_t bytes);
/* Sets the bytes of a block that was just handed out: the rest of it is not the program's. */
void gb_secure_size(void *block, uint32_t cls, size_t bytes);
/* Returns the bytes that the program asked for; of a free block, for its last use. */
size_t gb_secure_bytes(const gb_page *page, const void *block);
/* Changes the size of a block in place. Returns false if it is too small, or too large by half. */
bool gb_secure_resize(const gb_page *page, void *block, size_t bytes);
/* Checks and clears a medium block in use that is being freed; checks one that is handed out. */
void gb_secure_medium_freed(const char *call, const gb_page *page, void *block);
void gb_secure_medium_out(const gb_page *page, void *block);
/* Called for an empty medium page that returns to the arena; and for one just taken, whose memory may not be zero. */
void gb_secure_medium_give(gb_page *page);
void gb_secure_medium_taken(const gb_page *page);
/* Returns how many blocks on either side of a block are its neighbours. */
uint32_t gb_secure_near(uint32_t cls);
/* Checks the watched blocks and their neighbours. Owner. */
void gb_secure_look(glebe_heap *heap);
/* gb_secure_free (secure.h) of any block of a small page. At level 3 it looks at the neighbours at once. Owner. */
GB_NOINLINE void gb_secure_free_slow(const char *call, glebe_heap *self, gb_page *page, gb_block *block);
#define GB_SECURE_MOST 3 /* the highest level */
/* Returns the next block on a list of this page's blocks, or NULL. Reports and cuts a link that was overwritten. */
gb_block *gb_secure_next(const gb_page *page, gb_block *block);
void gb_secure_cut(const gb_page *page, gb_block *block);
/* gb_link_get for code that walks a list. */
GB_INLINE gb_block *gb_link_next(const gb_page *page, gb_block *block)
{
    return GB_SECURE ? gb_secure_next(page, block) : gb_link_get(block);
}

/* ---- hole: purging parts of a small page while other blocks of it are in use ---- */
/* Takes a hole of a small page, which must have one, for use. Returns its unit. */
unsigned gb_hole_take(gb_page *page);
/* Locked. Purges the page's holes. Returns the bytes purged. */
size_t gb_holes_purge(gb_page *page, bool lazily, gb_purge_budget *budget);
/* Returns whether the block touches a hole. Owner. */
bool gb_hole_has(const gb_page *page, uint32_t index);
/* Returns how many carved blocks of the page touch a unit in `units` (a bit mask). */
uint32_t gb_hole_blocks(const gb_page *page, uint32_t units);
/* Returns the blocks of one hole as a list, counted as out; NULL if the page has no hole left. Skips a hole if each
 * of its blocks touches another hole too. */
gb_block *gb_hole_carve(gb_page *page);
/* Walks the page to find its holes, and purges them `now` or when they are due. `coming` blocks are on the page's
 * list and still count as out. Returns how many free blocks were behind an overwritten link (secure build); they
 * count as out from now on. Owner. */
uint32_t gb_page_trim(gb_page *page, uint32_t coming, bool now);
/* Finds the page's holes; from then on each freed block may show a new one. Requires a page on an AVAIL list, fully
 * carved, of four slices. Owner. */
void gb_page_park(gb_page *page);
void gb_page_unpark(gb_page *page);
/* Frees a block of a parked page; the caller counts it. Returns false if the block was free already. Owner. */
bool gb_parked_put(gb_page *page, gb_block *block);

/* ---- look: when to search a small page for holes. Owner. ---- */
enum { GB_MARKS = 64 };
/* Blocks out of an AVAIL page when `left` reaches 0. */
GB_INLINE uint32_t gb_page_mark(const gb_page *page)
{
    return page->mark && page->mark != GB_PARKED ? page->cap * (page->mark - 1u) / GB_MARKS : 0;
}
/* Lets a page with `out` blocks in use count down to its first mark. */
void gb_page_mark_first(gb_page *page, uint32_t out);
/* Called when an AVAIL page has reached its mark. `coming` blocks are on its list and not counted yet. */
void gb_page_mark_reached(glebe_heap *heap, gb_page *page, uint32_t coming);
/* One step: finds holes in AVAIL pages that were not searched since blocks were freed, and purges them. Returns false
 * if no such page is left. The thread free lists are empty. */
bool gb_heap_look(glebe_heap *heap);
/* Finds holes in all pages of the heap; they are purged when they are due. */
void gb_heap_look_all(glebe_heap *heap);

/* ---- mixed: the first page of a small heap ---- */
/* Returns the heap's mixed page; NULL if it has none now. */
gb_page *gb_mixed_page(const glebe_heap *heap);
/* Fills an empty thread free list; if it `counts`, with no block beyond the next sample, which is not the next block.
 * Returns false if the heap has no such page, or the page is full. Owner. */
bool gb_mixed_supply(glebe_heap *heap, uint32_t cls, bool counts);
/* gb_page_locate for a mixed page; cls is GB_MIXED where no block was carved. */
gb_place gb_mixed_locate(const gb_page *page, size_t offset);
/* Returns the class of the block that starts there; GB_MIXED if none does. */
uint32_t gb_mixed_class(const gb_page *page, const void *block);
/* Returns the average size of its blocks in bytes. */
size_t gb_mixed_mean(const gb_page *page);
/* Returns the page to the arena if it is empty; with `anyway`, in any case. Owner. */
void gb_mixed_give(glebe_heap *heap, bool anyway);

/* ---- page: small pages ---- */
/* Returns the block of a small or medium page that the byte at `offset` is in. */
GB_INLINE gb_place gb_page_locate(const gb_page *page, size_t offset)
{
    if (GB_MIXES && page->cls == GB_MIXED)
        return gb_mixed_locate(page, offset);
    uint32_t cls = page->cls, index = gb_class_index(cls, offset);
    bool carved = index < __atomic_load_n(&page->bump, __ATOMIC_RELAXED); /* the owner may carve meanwhile */
    return (gb_place){cls, index, (uint32_t)offset - index * gb_classes[cls].bytes, carved};
}
/* Takes a run for a page of this class; the heap's demand decides its length. */
gb_page *gb_page_run(glebe_heap *heap, enum gb_kind kind, uint32_t cls, bool *zero);
/* Called when page->left has reached 0. Owner. */
GB_NOINLINE void gb_page_event(gb_page *page);
/* Counts down: a block was put on its page's list. Owner. */
GB_INLINE void gb_page_counted(gb_page *page)
{
    if (GB_UNLIKELY(--page->left == 0))
        gb_page_event(page);
}
/* The program freed the block: puts it on its page's list, and counts down. Owner. */
GB_INLINE void gb_page_freed(gb_page *page, gb_block *block)
{
    gb_page_push(page, block);
    gb_page_counted(page);
}
/* Counts `count` blocks that were put on page->free by other means than free(). Owner. */
void gb_page_returned(glebe_heap *heap, gb_page *page, uint32_t count);
/* Called before the heap takes `bytes`. A heap that is about to become larger than ever before first returns memory
 * that it retains for single classes. Owner. */
void gb_heap_grows(glebe_heap *heap, size_t bytes);
/* Takes up to *skip blocks off the page, counted as out, and subtracts their number. Returns them as a list; NULL: the
 * page has none. Owner. */
gb_block *gb_page_supply_some(gb_page *page, uint32_t *skip);
/* The source of small blocks for a heap that is sampled: gb_small_source, but it hands out no block beyond the next
 * sample. */
gb_source gb_small_counted;
/* Returns the number of blocks out of the page. Owner, or no owner runs. */
uint32_t gb_page_out(const gb_page *page);
/* Puts a freed block on its page's list, parked or not; the caller counts it. Returns false, after a report of a double
 * free, if the block was free already. Owner. */
bool gb_page_put(gb_page *page, gb_block *block);
/* Returns the blocks on the thread free lists to their pages. Owner. */
void gb_fronts_flush(glebe_heap *heap);
/* Put a small page with free blocks on the list of its class, and take it off. Owner. */
void gb_avail_add(glebe_heap *heap, gb_page *page);
void gb_avail_remove(glebe_heap *heap, gb_page *page);
/* Returns an empty page, which is on no list, to the arena. */
void gb_page_give(glebe_heap *heap, gb_page *page);
/* Returns up to `most` spare pages to the arena; false if there was none. Owner. */
bool gb_spares_give(glebe_heap *heap, uint32_t most);
/* Called after the heap's thread has ended. Returns empty pages to the arena, and puts current ones on the AVAIL
 * lists, where other heaps look for pages. The thread free lists are empty. Owner. */
void gb_heap_settle(glebe_heap *heap);
void gb_medium_settle(glebe_heap *heap);
/* Returns all thread free lists, empty pages and spare pages. If it `looks`, it also finds holes in the other pages: it
 * walks every block of them. Owner. */
void gb_heap_trim(glebe_heap *heap, bool looks);
/* Returns whether a thread free list without blocks ended as lists do: half of all overwritten links look like an end,
 * too. */
GB_INLINE bool gb_front_ended(const glebe_heap *heap, size_t cls)
{
    return !GB_MARKS_LINKS || GB_LIKELY((uintptr_t)heap->front[cls] == gb_the.end);
}
/* Reports that it did not, and makes it end there. */
GB_COLD void gb_front_damaged(glebe_heap *heap, size_t cls);
/* Takes a block off the thread free list. The next malloc reads the next block's link, and the program then writes to
 * that block: the prefetch hides the cache miss. */
GB_INLINE void *gb_hand_out(glebe_heap *heap, size_t cls, gb_block *block)
{
    gb_block *next = GB_SECURE ? gb_secure_out(block, cls) : gb_link_whole(block);
    if (!GB_SHORT)
        __builtin_prefetch(next, 1);
    if (GB_SECURE)
        heap->watched[0] = block;
    heap->front[cls] = next;
    if (GB_MARKS_LINKS)
        gb_link_clear(block);
    if (GB_AUDIT)
        gb_audit_born(block);
    return block;
}

/* ---- medium: pages whose free blocks are bits in the page's entry ---- */
/* Returns a block of the current page of request->cls; NULL: the page has none. Owner. */
void *gb_medium_claim(glebe_heap *heap, gb_request *request);
gb_source gb_medium_source;
/* Frees a block. Returns false if no block in use starts there. `self` is a heap that the caller owns. */
bool gb_medium_return(glebe_heap *self, gb_page *page, void *block);
/* The bits of all blocks of the page. */
GB_INLINE uint32_t gb_medium_all(const gb_page *page)
{
    return page->cap == 32 ? ~(uint32_t)0 : ((uint32_t)1 << page->cap) - 1;
}
/* Returns whether the block that starts there, of number `index`, is in use. A warm block of this thread is free, and
 * its bit does not say so. */
GB_INLINE bool gb_medium_in_use(const gb_page *page, const void *block, uint32_t index)
{
    return (gb_load_relaxed(&page->bits) >> index & 1) == 0
        && (!gb_heap_owns(gb_self, page) || gb_self->warm[page->cls - GB_SMALL_CLASSES] != block);
}
/* Counts `count` blocks of the page that were freed. Owner. */
void gb_medium_returned(glebe_heap *heap, gb_page *page, uint32_t count);
/* Returns warm blocks and empty current pages. Owner. */
void gb_medium_trim(glebe_heap *heap);

/* ---- large and huge: blocks with a run or an extent of their own ---- */
gb_source gb_large_source, gb_huge_source;
/* Resizes in place the large block that begins there. Returns false if it cannot. */
bool gb_large_resize(void *block, size_t bytes);
/* Makes the first `bytes` of a huge block zero. Purges parts that are mostly not resident, since writing would make
 * them resident. */
void gb_huge_clear(void *start, size_t bytes);
void gb_huge_free(gb_extent *extent);
/* Resizes in place, or, unless the block `stays`, moves OS pages without copying. Returns the block's address; NULL:
 * nothing changed, and a block that may move should be copied. */
void *gb_huge_resize(gb_extent *extent, size_t bytes, bool stays);
/* Returns the extent of the block that starts at `address`, or NULL. */
gb_extent *gb_huge_find(const void *address);

/* ---- warm: blocks that were freed last ---- */
/* Returns all warm blocks to their pages, runs and extents. Owner. */
void gb_heap_cool(glebe_heap *heap);
/* Returns the large and huge warm blocks. Owner. */
void gb_warm_return(glebe_heap *heap);
/* Returns a warm large or huge block of this size or a little more, or NULL. Owner. */
void *gb_warm_take(glebe_heap *heap, size_t bytes);
/* Keeps a freed large or huge block warm. Returns false if the heap may keep no more. Owner. */
bool gb_warm_keep(glebe_heap *heap, void *block, size_t bytes, uint8_t *flag);
/* Returns the warm large and huge blocks of a heap whose thread did not survive fork. */
void gb_warm_inherit(glebe_heap *dead);

/* ---- remote: frees across threads ---- */
/* `from` is the caller's own heap, which collects frees before it sends them. */
void gb_remote_free(glebe_heap *from, gb_page *page, gb_block *block);
void gb_remote_flush(glebe_heap *from);
/* Returns a block of the class that was freed here though its page is another heap's, and makes the others the thread
 * free list; with `one`, only hands one out. Requires that there are some. Owner. */
void *gb_borrowed_take(glebe_heap *heap, uint32_t cls, bool one);
/* Returns borrowed blocks to their pages; with `idle`, only of classes from which none was taken since the last call.
 * Owner. */
void gb_borrowed_return(glebe_heap *heap, bool idle);
/* Splices a list of blocks onto a page of another heap, and puts the page into the owner's inbox. */
void gb_remote_send(gb_page *page, gb_block *first, gb_block *last, uint32_t count);
/* Counts one freed block of a medium page of another heap, and puts the page into the owner's inbox. */
void gb_remote_notify(gb_page *medium);
/* Returns whether the thread of the page's heap did not survive fork. The caller holds a live block of the page. */
bool gb_heap_dead(const gb_page *page);
/* Accepts the remote frees of one page, and clears its queued bit. Owner. */
void gb_page_accept(glebe_heap *heap, gb_page *page);
/* Accepts the remote frees of all pages in the inbox. Returns true if there was one. Owner. */
bool gb_inbox_drain(glebe_heap *heap);
/* gb_inbox_drain for a bounded number of pages, within a request. */
void gb_inbox_drain_some(glebe_heap *heap);
GB_INLINE bool gb_inbox_filled(const glebe_heap *heap)
{
    return GB_THREADS && (gb_load_relaxed(&heap->inbox) || heap->inbox_taken.n);
}
/* The purger claims a page whose blocks are all free before its owner has looked. Returns whether the claim succeeds.
 * Locked. Small page: with `only_seen`, only the second call claims, if the owner did not look in between. Medium
 * page: the caller holds all its bits. */
bool gb_small_claim_whole(gb_page *page, bool only_seen);
bool gb_medium_claim_whole(gb_page *page);
/* Undoes a claim if the page could not be purged. Locked. The caller still holds the bits of a medium page. */
void gb_page_unclaim(gb_page *page);
/* Moves a page of an abandoned heap to `heap`. Returns false if frees of the page are under way. Requires the lock
 * of abandoned heaps. */
bool gb_page_reclaim(glebe_heap *heap, gb_page *page);

/* ---- common: heaps for threads that allocate seldom ---- */
/* Returns a common heap that this thread owns until it leaves; NULL: the thread should have a heap of its own. */
gb_common *gb_common_enter(void);
/* Enters common heap `number` (modulo their count) if it exists and no thread is in it; with `silent`, only if it rests
 * or had no tick for purge_ms. Returns NULL otherwise. */
gb_common *gb_common_try(uint32_t number, bool silent, uint32_t now);
glebe_heap *gb_common_heap(const gb_common *common);
void gb_common_leave(gb_common *common);
/* Take and drop the locks of common heaps, the sampler, abandoned heaps, and the region. Meanwhile only owners change
 * heaps. */
void gb_heaps_lock(void);
void gb_heaps_unlock(void);

/* ---- thread: heaps and their owners ---- */
/* always empty, so that a thread's first malloc takes the slow path */
extern gb_heap_slot gb_slot_none;
#define gb_heap_none gb_slot_none.heap
/* The classes of small requests by bytes, as gb_class_small, in a heap that is or was a thread's own. */
GB_INLINE const uint8_t *gb_heap_classes(const glebe_heap *heap) { return ((const gb_heap_slot *)heap)->classes; }
/* Returns this thread's heap. The first call makes or reclaims one; NULL if there is no memory for it. */
GB_COLD glebe_heap *gb_thread_start(void);
extern GB_TLS bool gb_thread_ended; /* gb_thread_exit was called in this thread */
/* Called after a request. Abandons the heap again at once if this thread has already ended. */
GB_INLINE void gb_thread_late(void)
{
    if (GB_THREADS && GB_UNLIKELY(gb_thread_ended))
        gb_thread_exit();
}
/* The heap that this thread left by gb_thread_leave, and will return to. */
extern GB_TLS glebe_heap *gb_thread_left;
/* Returns whether this thread is between gb_thread_leave and gb_thread_return. */
bool gb_thread_away(void);
/* Leaves the heap, and returns it. This thread then has no heap until it returns. If malloc gives it another one
 * meanwhile, gb_thread_return abandons that one. */
glebe_heap *gb_thread_leave(void);
void gb_thread_return(glebe_heap *heap);
glebe_heap *gb_heap_new(enum gb_heap_kind kind);
void gb_heap_retire(glebe_heap *heap); /* its number may be used again */
/* Returns the heap after `before` (NULL: the first heap), in the order of their numbers, without unused ones. Returns
 * NULL at the end. */
glebe_heap *gb_heap_next(const glebe_heap *before);
/* Gives up a heap of a thread or of the program. Its blocks stay valid, and other heaps may take its free memory.
 * Owner. */
void gb_heap_abandon(glebe_heap *heap);
/* Reclaims pages of this class with free blocks from abandoned heaps. Owner. */
bool gb_abandoned_reclaim(glebe_heap *heap, uint32_t cls);
/* Returns to the arena all memory that abandoned heaps hold on thread free lists and in spare pages. Returns the
 * bytes. `looks` as for gb_heap_trim. */
size_t gb_abandoned_trim(bool looks);
/* Accepts the remote frees of the next few abandoned heaps. Pages that become empty may return to the arena. */
void gb_abandoned_drain(void);
/* One step: gb_heap_look for the next abandoned heap with pages to search. Returns false if there is none. */
bool gb_abandoned_look(void);

#pragma GCC visibility pop

#endif
