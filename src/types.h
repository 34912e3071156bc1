/* The structures that several folders share. The others are in the headers of their folders.
 *
 *     low addresses                                                                              high addresses
 *     +-------------+----------+-------------+-------+--- chunks ----------------------+ - - +--- extents ----------+
 *     | slice table | large    | chunk table | heaps | 2 MiB | 2 MiB | ... grows up -->      | of huge blocks,      |
 *     | 64 B/slice  | blocks'  | 128 B/chunk | ext.s'| 128 slices of 16 KiB each     |       | in granules of 64 KiB|
 *     |             | 64 B/4 s.|             | table |                               |       | ... grow up -->      |
 *     +-------------+----------+-------------+-------+---------------------------------+ - - +----------------------+
 *
 * The port reserves the address space of the region, or only chooses its place. Memory is committed in pieces. A slice
 * is free, or part of a run: a page of small or medium blocks, or one large block. Entry i of the slice table describes
 * slice i. The entry of a page's first slice (its head) describes the page; the other entries say how far back the head
 * is. Links between entries are their numbers (gb_page_id), and 0 is null: the arena never hands out slice 0.
 *
 * Behind the large blocks' records are the heads: a table with, for each slice, the address of the entry of its page's
 * head, which is the slice's own entry if it is in no page. free() reads it, and so needs neither the slice's entry nor
 * the way back from it.
 *
 * A large block writes nothing into the slice table: the entries of its slices look like those of free slices. Its
 * record is in a table of its own, a quarter as long: the run of a large block has at least four slices, so no two
 * begin in the same four. Records are numbered like entries.
 *
 *     a small page (one or four slices):            which thread writes
 *     | block | block | ... | carved so far | not |  owner only: free, left, bump, state, lists
 *     ^ free -> block -> block -> NULL               any thread: xfree (one compare-and-swap splices a list)
 *
 * Accounting of a page. `out` counts its blocks that are not free in it: in use, on a thread free list, or freed by a
 * thread that has not returned them yet.
 *     small   CURRENT, AVAIL   left = out        FULL   left = blocks to be freed before the page is looked at again
 *             AVAIL, mark m    left = out - cap * (m - 1) / 64: the page counts down to a mark before it is empty
 *     medium  always           page->out = out
 */
#ifndef GB_TYPES_H
#define GB_TYPES_H

#include "../include/glebe.h"
#include "base/bits.h"
#include "base/config.h"
#include "base/links.h"
#include "base/samples.h"
#include "base/size_class.h"
#include "base/slice_set.h"
#include "base/watch.h"

#pragma GCC visibility push(hidden)

/* A link to a page: the number of its entry, counted from the start of the slice table. Records of large blocks have
 * numbers beyond the table, so this is not the number of a slice. */
typedef struct gb_page_id {
    uint32_t n; /* 0: none */
} gb_page_id;
#define GB_NO_PAGE ((gb_page_id){0})

/* The number of a heap. Where there are no threads: GB_HEAP_MAIN, or the slice that the heap is in. */
typedef struct gb_heap_id {
    uint32_t n; /* 0: none */
} gb_heap_id;
#define GB_NO_HEAP ((gb_heap_id){0})

typedef struct gb_block {
    uintptr_t words[2]; /* one has the link, mostly keyed: use gb_link_get and gb_link_set */
} gb_block;

/* Kind of a run of slices. Each entry of a page holds it; for a large block, its record alone. */
enum gb_kind {
    GB_FREE, /* in linear memory: blocks with tags, free or in use */
    GB_SMALL,
    GB_MEDIUM,
    GB_LARGE,
    GB_RESERVED, /* a guard, or address space that the region does not own now */
    GB_COLLECTED, /* a page of collected objects */
    GB_COLLECTED_LARGE, /* a collected object with a run of its own */
};

enum gb_state {
    GB_CURRENT, /* heap->current[class] */
    GB_FULL, /* no free block known; on heap->full */
    GB_AVAIL, /* has free blocks; on heap->avail[class] */
    GB_SPARE, /* empty, and retained; on heap->spare[class] */
    GB_SINGLE, /* a large block; on heap->large */
    GB_SWEPT, /* a page of collected objects; on its cursor's list */
    GB_BLANK, /* secure build: a medium page that is given back, whose bytes are 0; then each of its free slices */
};

/* `xfree` of a small page: offset + 1 of the list's first block (0: none), offset of its last, its length, and flags.
 * QUEUED: the page is in an inbox. WHOLE: the list holds every block of the page. SEEN: the purger saw WHOLE before. */
#define GB_XFREE_LAST_SHIFT 24
#define GB_XFREE_COUNT_SHIFT 44
#define GB_XFREE_QUEUED ((uint64_t)1 << 63)
#define GB_XFREE_WHOLE ((uint64_t)1 << 62)
#define GB_XFREE_SEEN ((uint64_t)1 << 61)
#define GB_XFREE_FIRST(x) ((uint32_t)(x) & 0xffffffu)
#define GB_XFREE_LAST(x) ((uint32_t)((x) >> GB_XFREE_LAST_SHIFT) & 0xfffffu)
#define GB_XFREE_COUNT(x) ((uint32_t)((x) >> GB_XFREE_COUNT_SHIFT) & 0xffffu)
#define GB_XFREE_PURGED ((uint64_t)1 << 60) /* the purger took the list, and the page's memory */
/* `notify` of a medium page: how many blocks other threads freed since the owner last looked, and two of these flags */
#define GB_NOTIFY_QUEUED ((uint32_t)1 << 31)
#define GB_NOTIFY_PURGED ((uint32_t)1 << 30)
#define GB_NOTIFY_COUNT(x) ((x) & 0x3fffffffu)

/* Marks of small AVAIL pages. Any other value: `left` counts down to (mark - 1) / 64 of cap (look.c). */
#define GB_UNLOOKED 0 /* not searched for holes since blocks were freed */
#define GB_PARKED 255 /* counts its blocks by OS page: hole.c */
/* gc_flags of collected pages: mark.c */
#define GB_WAITS 1
#define GB_BORN 2
#define GB_CLEAN 4 /* cells from `bump` on were never handed out, and are zero (GB_RUNTIMES) */
#define GB_MIXED GB_CLASSES /* cls of a page that has blocks of many classes: mixed.c */
#define GB_MIXED_LATER UINT32_MAX
#define GB_HOLDS_HEAP 255 /* cls of a large block that holds a heap, where there are no threads */
#define GB_HEAP_MAIN ((gb_heap_id){UINT32_MAX}) /* malloc's heap, where there are no threads */
#define GB_PAGE_BLOCKS_MAX ((uint32_t)GB_BIG_PAGE_SLICES << (GB_SLICE_LOG2 - 4)) /* the smallest block has 16 bytes */
#define GB_PAGE_UNITS ((uint32_t)GB_BIG_PAGE_SLICES << (GB_SLICE_LOG2 - GB_UNIT_LOG2))

typedef struct gb_page {
    alignas(64) union {
        /* gb_owner, in every slice of a page: the one value that the fast free, and a collector, compares */
        _Atomic uintptr_t owner;
        uintptr_t owner_peek; /* for gb_peek */
    };
    uint32_t back_bytes; /* bytes of table from this entry back to the head; 0 in the head */
    uint8_t kind;
    /* from here on valid in the head only */
    uint8_t cls; /* in a large block's record: in which of its four slices the block begins */
    uint8_t state;
    union {
        uint8_t mark; /* small page */
        uint8_t warm; /* large block: its heap keeps it, warm.c */
        uint8_t gc_flags; /* collected page: GB_WAITS, GB_BORN, GB_CLEAN */
    };
    union {
        struct {
            union {
                struct {
                    gb_block *free; /* blocks that the owner freed */
                    _Atomic uint64_t xfree; /* blocks that other threads freed */
                };
                struct {
                    _Atomic uint32_t bits; /* 1: free. Any thread sets a bit; the owner and the purger clear it */
                    _Atomic uint32_t dirty; /* 1: in use since it was last known to be zero */
                    _Atomic uint32_t idle; /* 1: free since the purger's last visit */
                    _Atomic uint32_t notify;
                };
                struct {
                    uintptr_t layout; /* of its objects; see glebe_gc_alloc_layout (collected) */
                    uint32_t step; /* bytes of an object */
                    /* ceil(2^32 / step), which is exact in pages this short; 0 if the page holds a single object */
                    uint32_t magic;
                };
            };
            union {
                int32_t left; /* small: see the table above */
                int32_t out; /* medium: blocks that are not free in the page */
                /* collected: `step` if the objects are small and any word of them may be a reference, else 0; valid in
                 * every entry of the page */
                uint32_t dense;
            };
            _Atomic uint32_t heap; /* n of the owner; valid in the head */
            gb_page_id next, prev; /* of the one list that the page is on */
            gb_page_id inbox_next;
            uint16_t cap; /* blocks that fit */
            uint16_t bump; /* blocks carved so far (small); all (medium) */
            union { /* guarded by the region's lock */
                struct {
                    uint16_t holes; /* units without a block in use and without a link, as bits (small) */
                    uint16_t punched; /* holes that were purged, as bits */
                };
                uint32_t cursor; /* number of the cursor that has the page (collected, small) */
                /* place of its gb_stack, in bytes from the region's base; 0: not a stack (collected, large,
                 * GB_STACKS) */
                uint32_t stack;
                uint32_t blank; /* slices that should be zero, as bits, of a medium page that was just taken (secure) */
                uint32_t lazy; /* blocks purged lazily, as bits; only bits that are also in `idle` count (medium) */
            };
            uint32_t slices;
        };
        uint16_t units[GB_PAGE_UNITS]; /* in entries other than the head, while the page is parked: hole.c */
    };
} gb_page;

_Static_assert(sizeof(gb_page) == 64, "free() finds entries by a shift");

#define GB_WATCHED 2
/* A large or huge block that was freed, and that its heap keeps. */
typedef struct gb_warm {
    void *block;
    size_t bytes;
    uint8_t *flag; /* `warm` in the block's record */
} gb_warm;

typedef struct gb_list {
    gb_page_id first, last;
} gb_list;

/* A block of a small or medium page, found from the address of any of its bytes. */
typedef struct gb_place {
    uint32_t cls;
    uint32_t index; /* below GB_PAGE_BLOCKS_MAX; in a mixed page, the block's offset / 16 */
    uint32_t inside; /* bytes from the block's start to the given byte */
    bool carved; /* the block was carved; in a page of one class the place is known before that */
} gb_place;

/* A block with a tag: tagged.c has the picture. */
typedef struct gb_tagged {
    uint32_t before; /* bytes of the block before, if that block is free: stored in its last bytes */
    uint32_t tag; /* bytes to the next block, and flags */
    struct gb_tagged *next, **link; /* of a free block: in its bin, and the link that leads to it */
} gb_tagged;
#define GB_TAG_BYTES offsetof(gb_tagged, next)
#define GB_TAGGED_EXACT 2048 /* shorter blocks have bins of one length */
#define GB_TAGGED_BINS (GB_TAGGED ? 512 : 64)

/* The head of a block with a tag in a heap other than malloc's. */
typedef struct gb_owned {
    struct gb_owned *next, **link;
    glebe_heap *heap;
    uintptr_t tag; /* the program's bytes follow */
} gb_owned;

/* Freed blocks of one page of another heap, as a list, not sent to that page yet. */
typedef struct gb_remote {
    gb_page_id page;
    uint32_t count;
    gb_block *first, *last;
} gb_remote;

/* Freed blocks of other heaps' pages, all of one class, that this heap hands out again. `frees`: remote frees of the
 * class since a request was last served from them, or from a page. `used`: taken since the heap last cooled. */
typedef struct gb_borrowed {
    gb_block *first;
    uint16_t frees;
    bool used;
} gb_borrowed;

/* The background thread. SLEEPS: until memory waits. DUE: starts at the next tick. LATE: once much memory is in use. */
enum gb_background { GB_BACKGROUND_OFF, GB_BACKGROUND_RUNS, GB_BACKGROUND_SLEEPS, GB_BACKGROUND_DUE,
    GB_BACKGROUND_LATE };

enum gb_heap_kind {
    GB_HEAP_UNUSED,
    GB_HEAP_THREAD,
    GB_HEAP_ABANDONED,
    GB_HEAP_COMMON, /* of all threads that allocate seldom: common.c */
    GB_HEAP_DEAD, /* its thread did not survive fork */
    /* from here on, other threads' frees bypass their own heap: gb_remote_free */
    GB_HEAP_OWNED, /* the program's: glebe_heap_create */
    GB_HEAP_SAMPLED /* has the sampled blocks of all threads: sample.c */
};

/* Field of a fast path's compare; see gb_peek. */
#define GB_PEEKED(type, name) \
    union { \
        _Atomic type name; \
        type name##_peek; \
    }

/* A heap's part of the sampler: sample.c. The fast paths compare with the first three fields instead of constants.
 * While the heap's allocations are sampled each compare fails, so that every request that could be the next sample
 * takes a slow path, which counts. */
typedef struct gb_sampling {
    GB_PEEKED(int32_t, few); /* GB_FEW_BLOCKS, or INT32_MAX */
    GB_PEEKED(uint32_t, warm_least); /* 0, or UINT32_MAX */
    GB_PEEKED(size_t, medium_most); /* GB_MEDIUM_MAX, or 0 */
    GB_PEEKED(uint32_t, on); /* the heap's allocations are sampled */
    uint32_t start; /* number of the start for which the fields below were drawn. Owner */
    uint64_t chance; /* state of the random generator. Owner */
    int64_t left; /* bytes of blocks above the small ones until the next sample. Owner */
    uint32_t skip[GB_SAMPLES ? GB_SMALL_CLASSES : 1]; /* blocks of each class before the next sample. Owner */
    uint32_t spell; /* between two ticks; counted while blocks are guarded */
} gb_sampling;

struct glebe_heap {
    union {
        /* the thread free lists: malloc pops here and reads nothing else. Only those of small classes have blocks; that
         * of GB_ZERO_CLASS is always empty */
        gb_block *front[GB_TAGGED ? GB_SMALL_CLASSES : GB_CLASSES + 1];
        struct {
            gb_block *front_small[GB_SMALL_CLASSES];
            /* for each medium class, the block that was freed last; it counts as out of its page */
            void *warm[GB_CLASSES - GB_SMALL_CLASSES + GB_TAGGED];
        };
    };
    union {
        gb_warm warm_big[GB_TAGGED ? 1 : GB_WARM_BLOCKS]; /* large and huge blocks that were freed last: warm.c */
        gb_block *watched[GB_WATCHED]; /* the block handed out last, and the one freed last (secure build) */
    };
    uint32_t warm_count;
    uint16_t gap, gap_end; /* cells of the mixed page that the rows of larger blocks skipped */
    size_t warm_bytes;
    gb_page_id current[GB_CLASSES + 1]; /* the last, of GB_ZERO_CLASS, is none */
    gb_page_id mixed; /* n is GB_MIXED_LATER: made when first needed */
    gb_list avail[GB_CLASSES]; /* longest waiting first: that page has had the most time to gather free blocks */
    uint32_t class_slices[GB_CLASSES]; /* demand: decides the size of the next page */
    gb_list spare[GB_SMALL_CLASSES];
    uint64_t spare_classes; /* bits: which lists of spare pages are not empty */
    gb_list full, large;
    gb_owned *owned; /* its blocks with tags, in a heap other than malloc's */
    size_t spare_bytes;
    size_t small_bytes; /* of all small pages */
    size_t avail_bytes; /* of small pages on avail lists: where trim may find holes */
    uint32_t unlooked[GB_PURGES ? GB_SMALL_CLASSES : 1]; /* AVAIL pages of the class with GB_UNLOOKED */
    /* memory waits to be purged. The next slow event does a step. It is soon, because refills take one block at a time
     * while this is set */
    bool waits;
    bool rests; /* the heap was quiet for purge_ms: each slow event purges a step of its free memory */
    uint32_t rest_ms; /* memory that was free at this time is purged */
    uint32_t looks_left, looks_ms; /* budget of searches for holes until looks_ms + purge_ms; see gb_bounds_look */
    size_t grown_bytes; /* the most that the heap held when it last grew, or a little more: gb_bounds_grow */
    size_t limit_bytes;
    size_t collected_bytes; /* of a collector's pages and objects, which are on the collector's own lists */
    /* the last request, if the process's limit refused it; else 0. Guarded by the region's lock */
    size_t refused_bytes;
    _Atomic size_t bytes; /* of pages, large and huge blocks; atomic for readers only */
    int32_t tick; /* slow events until the next look at the clock */
    uint32_t tick_ms; /* time of the last look at the clock */
    uint64_t tick_cycles; /* the same time by gb_cycles */
    gb_heap_id number;
    _Atomic uint32_t kind; /* atomic because gb_remote_free of other threads reads it */
    gb_heap_id next; /* in the list of abandoned heaps */
    gb_ends huge; /* its huge blocks, as extents */
    _Atomic uint32_t inbox; /* n of the first of a list of pages with remote frees */
    gb_page_id inbox_taken; /* pages that the owner took out of the inbox, and accepts in steps */
    gb_remote remote[GB_REMOTE_SLOTS];
    gb_borrowed borrowed[GB_BORROWED_CLASSES];
    struct gb_pool *pools;
    gb_sampling sampling;
};

/* ---- requests ---- */

/* A request for a block. Each source reads the fields that it uses. */
typedef struct gb_request {
    size_t bytes;
    size_t alignment; /* a power of two */
    size_t room; /* the block may grow in place to this size; 0: not needed */
    void *block; /* the block that the new one replaces, since it grows; NULL: none */
    size_t dirty; /* result: how many bytes from the block's start may not be zero */
    uint32_t cls; /* of small and medium blocks */
    bool collected; /* a huge block for a collected object */
} gb_request;

/* Returns a block for the request from the memory of one kind, or NULL. Owner. */
typedef void *gb_source(glebe_heap *heap, gb_request *request);

/* ---- pools: pool.c has the picture ---- */

typedef struct gb_segment {
    struct gb_segment *next;
    uintptr_t start, end; /* of its units */
    size_t bytes; /* of its block, if it holds several units */
    uint16_t *states; /* of each unit (audit build) */
} gb_segment;

typedef struct gb_pool {
    glebe_heap *heap;
    struct gb_pool *next, **link; /* in heap->pools */
    gb_segment *segments, *current; /* oldest first; segments behind `current` are empty */
    gb_segment whole; /* the only segment, where a pool is one piece */
    uintptr_t fresh; /* in `current`: units from here to its end were never handed out */
    size_t limit_bytes, step_bytes, held_bytes;
    bool own; /* the heap belongs to the pool */
    void **lists; /* free objects by units: open_lists, or hidden behind them (audit build) */
    glebe_pool open; /* the part that the program sees */
    void *open_lists[];
} gb_pool;

_Static_assert(offsetof(gb_pool, open_lists) == offsetof(gb_pool, open) + sizeof(glebe_pool),
    "glebe_pool_alloc finds the lists there");

/* ---- collected objects ---- */

/* The source of objects of one class and one layout: a gap in one of its pages, which is zero and counts as in use. */
typedef struct gb_cursor {
    uintptr_t at, end; /* of the gap; equal: there is none */
    uint64_t rest, every; /* bits of 64 cells: objects of further gaps; all objects from the first cell on */
    uintptr_t layout;
    gb_page_id page; /* the page of the gap; pages behind it on the list are not swept yet; none: all are swept */
    uint32_t cls, early; /* early: bytes allocated in conservative pages before this layout got pages of its own */
    gb_list pages;
} gb_cursor;

typedef struct gb_recent {
    uintptr_t layout;
    size_t eights; /* requested bytes, in units of 8; SIZE_MAX: the slot is empty */
    uint32_t step; /* bytes of an object in its page */
    gb_cursor *cursor;
} gb_recent;

/* Items of hash tables. Each begins with its key, complemented: table.c. */
typedef struct gb_final {
    uintptr_t object;
    glebe_gc_final *function; /* NULL: the call has begun, and no other is pending */
    void *context;
    uint32_t running; /* calls for this object that have not returned: the object stays */
    bool ready; /* the object was found unreachable: it stays until the function has been called */
    uint8_t order; /* glebe_gc_order, and perhaps GLEBE_GC_ROOTS_CONTEXT (GB_RUNTIMES) */
} gb_final;

typedef struct gb_weak {
    uintptr_t slot;
    uint32_t times; /* additions less removals */
    bool late; /* cleared only when finalizers cannot reach the object either (GB_WEAK) */
} gb_weak;

typedef struct gb_weak_link {
    uintptr_t slot; /* | 1: a long link */
    uintptr_t object; /* complemented too */
} gb_weak_link;

typedef struct gb_pin {
    uintptr_t object;
    uint32_t times; /* pins less unpins */
} gb_pin;

typedef struct gb_rooted {
    uintptr_t start;
    uintptr_t end; /* of the longest range that begins there */
    uint32_t times;
} gb_rooted;

typedef struct gb_root {
    uintptr_t from, to;
} gb_root;

/* A growing array, or a hash table, in the collector's own heap. */
typedef struct gb_table {
    void *items;
    uint32_t count, room;
} gb_table;

/* Where collected objects begin: GB_SLICE_BITS bits for each slice. */
typedef struct gb_bits {
    uint64_t *allocated; /* an object begins in this cell */
    uint64_t *unmarked; /* during a collection, objects not reached yet; else all 0 */
    uint64_t *waiting; /* during a collection, marked objects that wait for their scan; else all 0 */
    size_t allocated_committed, unmarked_committed, waiting_committed; /* bytes, from the start of each table */
    uint32_t collectors; /* that use these tables; 0: the tables may be shorter than the slice table */
} gb_bits;
#define GB_BITS (GB_LINEAR ? 1 : 2)
#define GB_BITS_TABLES 3

/* A collected object in an extent of its own: huge_object.c. */
typedef struct gb_huge_object {
    uintptr_t from, to;
    uintptr_t layout;
    bool marked;
    uint32_t next; /* where it waits to be scanned: see huge_waiting */
    bool born; /* allocated while marking ran */
} gb_huge_object;

#define GB_OBJECT_CLASSES (GB_TAGGED ? GB_CLASSES : GB_SMALL_CLASSES) /* malloc's classes up to 2 KiB */
/* and after them classes of 8, 24, 40 and 56 bytes, if cells have 8 bytes */
#define GB_COLLECTED_CLASSES (GB_OBJECT_CLASSES + 4)
/* layouts with pages of their own; objects of further layouts are in conservative pages */
#define GB_PRECISE_CURSORS 64
/* Numbers of cursors: conservative pages, pages of plain objects, pages of one layout. */
#define GB_SCANNED 0
#define GB_PLAINS GB_COLLECTED_CLASSES
#define GB_PRECISE (2 * GB_COLLECTED_CLASSES)
/* Kinds and classes with pages of their own; objects of further ones have a run of slices each. */
#define GB_KIND_CURSORS (GB_RUNTIMES ? 256 : 0)
#define GB_KINDS (GB_PRECISE + GB_PRECISE_CURSORS) /* where their cursors begin */
#define GB_RECENTS 128
#define GB_CURSORS (GB_KINDS + GB_KIND_CURSORS)

struct glebe_gc {
    gb_cursor cursors[GB_CURSORS];
    gb_recent recent[GB_RECENTS]; /* by layout and size: a shortcut to the cursor */
    glebe_heap *heap; /* owns the pages; blocks that the heap allocates are the collector's own tables */
    gb_bits *bits; /* its tables of object starts; see gb_bits_of */
    gb_list large;
    gb_table huge; /* an array, sorted by address */
    uintptr_t huge_from; /* start of the first */
    size_t huge_span; /* bytes from there to the end of the last */
    size_t huge_bytes;
    uint32_t huge_waiting; /* number + 1 of the first huge object that waits to be scanned; 0: none */
    uintptr_t stack_pointer; /* at the start of the collection; the stack below it is dead (GB_STACKS) */
    size_t taken_bytes; /* handed out since the last collection; a hole counts whole */
    size_t trigger_bytes; /* a collection is due at this many taken_bytes */
    size_t least_bytes; /* lower bound of the trigger */
    size_t live_bytes, roots_bytes; /* as found by the last collection */
    uint32_t percent; /* of live_bytes + roots_bytes: the trigger */
    bool due; /* an allocation failed because a collection is due */
    uint8_t forced; /* calls under way that forbid a collection; while not 0, memory grows even if one is due */
    bool marking, born; /* born: an object was allocated since marking began */
    bool calling; /* a callback of the program runs; it may not end the collection */
    uint32_t refused; /* requests in a row for which there was no memory */
    uint32_t every, until; /* stress: collect at every n-th allocation; 0: off */
    uintptr_t stack[GB_MARK_STACK]; /* addresses to scan from */
    gb_page_id waiting; /* list of pages with objects that wait, linked by inbox_next */
    uintptr_t *top; /* of the mark stack, while a kind's function marks; else NULL (GB_RUNTIMES) */
    gb_table roots, weak, finals; /* of gb_rooted, gb_weak, gb_final */
    gb_table pins, links; /* of gb_pin, gb_weak_link (GB_RUNTIMES) */
    struct gb_cache *caches; /* of threads (GB_RUNTIMES) */
    struct gb_marker *team; /* several threads mark (GB_RUNTIMES) */
    uint32_t helpers; /* threads that mark besides the one that collects, at most */
    uint64_t scanned_by[2]; /* objects that teams scanned: the collecting thread, all helpers */
    size_t cached_bytes, cached_objects; /* in the caches' gaps when marking began, and not returned since */
    const struct gb_hooks *hooks; /* of a runtime that is built with the core, or NULL (GB_RUNTIMES) */
    size_t ready_bytes, behind_bytes; /* of live_bytes: only ready finalizers keep them; they wait for another's */
    uint32_t ready, ready_at; /* count of ready finalizers; where in the table the search for the next one begins */
    glebe_gc_marker *marker;
    glebe_gc_listener *listener;
    void *marker_context, *listener_context;
    glebe_gc_stats stats;
};

/* The arena finds a chunk by the length of its longest row of free slices, or of free slices that are dirty. */
enum gb_row_kind { GB_ROW_FREE, GB_ROW_DIRTY, GB_ROWS };
typedef struct gb_row {
    gb_links links; /* of the chunks whose longest row has the same length */
    uint32_t slices; /* 0: the chunk has no such row, and is on no list of this kind */
} gb_row;

/* A stack that waits, as the scheduler describes it: [start, low) and [high, end) are in use (GB_STACKS). */
typedef struct gb_stack {
    uintptr_t low, high, start;
} gb_stack;

/* 2 MiB of slices. The region's lock guards all fields but `touched_ms` and `queued`, which are hints. */
typedef struct gb_chunk {
    alignas(64) gb_slice_set free;
    gb_slice_set dirty; /* may not be zero */
    gb_slice_set idle; /* free and dirty since the purger's last visit */
    gb_slice_set lazy; /* purged lazily, so not known to be zero; only bits that are also in `idle` count */
    gb_row rows[GB_ROWS];
    gb_links waits; /* of the purge queue */
    uint32_t queued_ms;
    _Atomic uint32_t touched_ms; /* when memory in it was last freed */
    _Atomic uint8_t queued;
    uint8_t free_slices;
    uint8_t huge_pages; /* the chunk asked for huge pages */
} gb_chunk;

_Static_assert(sizeof(gb_chunk) == 128, "number and address of a chunk lead to each other by a shift");

/* Address space of huge blocks: extent.c has the picture. */
enum gb_extent_state {
    GB_EXTENT_INSIDE, /* the entry of a granule in which no extent begins */
    GB_EXTENT_EDGE, /* the first granule; no block ever has it */
    GB_EXTENT_USED,
    GB_EXTENT_IDLE, /* free from here to GB_EXTENT_AWAY, in the order of preference */
    GB_EXTENT_LAZY,
    GB_EXTENT_CLEAN,
    GB_EXTENT_AWAY,
    GB_EXTENT_LOST,
};
/* What the safe build does with a freed block. */
enum gb_held { GB_HELD = 1 /* until no word points into it */, GB_RELEASED /* it is about to be free for reuse */ };
#define GB_EXTENT_SETS (GB_EXTENT_LOST - GB_EXTENT_IDLE + 1)
#define GB_EXTENT_BINS 128
typedef struct gb_extent {
    size_t bytes; /* of the block, rounded up to OS pages */
    size_t committed; /* bytes from the start (used) */
    size_t dirty; /* bytes from the start that may not be zero (used) */
    uint32_t granules;
    uint32_t before; /* in the entry of the extent's last granule: the extent's length in granules */
    gb_links links; /* of the heap's blocks, or of free extents in the same bin */
    gb_heap_id heap; /* the owner (used) */
    gb_links waits; /* of idle extents */
    union {
        uint32_t idle_ms; /* since when the extent is idle */
        uint8_t warm; /* the block was freed, and its heap keeps it: warm.c (used). Written without the lock */
    };
    uint8_t state;
    uint8_t collected; /* a collected object (used) */
    uint8_t room; /* the block keeps the part of it that is not committed (used) */
    uint8_t moved; /* its OS pages were moved here: a mapping of its own */
    uint8_t held; /* the block was freed, and the safe build holds it: an enum gb_held (used) */
    uint8_t reached; /* number of the safe build's sweep that found a word that points into this granule; 0: none */
    uint8_t deferred; /* how often its wait began again, because it holds parts of huge pages (idle) */
} gb_extent;

/* State of 2 MiB of extents: span.c. */
enum gb_span_state {
    GB_SPAN_NONE,
    GB_SPAN_HUGE, /* asked for a huge page */
    GB_SPAN_SMALL, /* asked for a huge page first, and for small pages since a part was purged */
};

typedef struct gb_extent_set {
    uint64_t filled[GB_EXTENT_BINS / 64];
    gb_ends bins[GB_HUGE ? GB_EXTENT_BINS : 1];
    uint32_t count;
} gb_extent_set;

/* What a huge block requires of its place. */
typedef struct gb_extent_place {
    size_t room; /* bytes that the block may grow to in place; 0: its own length */
    size_t behind; /* bytes that should be free behind the block, so that it can grow */
    bool clean; /* no idle memory, because OS pages will be moved there */
} gb_extent_place;

typedef struct gb_heap_bits {
    uint64_t unused;
    uint64_t touched; /* unused, and not purged since */
} gb_heap_bits;

typedef struct gb_lock {
    _Atomic uint32_t word; /* 0: free; 1: held; 2: held, and a thread may wait */
} gb_lock;

/* A heap for all threads that allocate seldom: common.c. The thread that holds the lock is its owner. */
typedef struct gb_common {
    alignas(64) gb_lock lock;
    _Atomic uint32_t heap; /* n; 0: not made yet */
} gb_common;

/* Remaining budget of one step of purging. The step ends when either is 0. */
typedef struct gb_purge_budget {
    size_t bytes;
    uint32_t calls;
    bool refused; /* the host refused to take some memory */
} gb_purge_budget;

/* ---- samples: sample.c has the picture ---- */

typedef struct gb_sampler {
    alignas(64) gb_lock lock; /* guards all fields that say nothing else; taken before the lock of abandoned heaps */
    _Atomic uint32_t heap; /* n of the heap with the sampled blocks; 0: no sample was ever taken */
    _Atomic uint32_t on;
    _Atomic uint32_t starts; /* how often sampling began */
    _Atomic uint32_t profiles; /* the samples are recorded, for a profile; else they serve guarded blocks alone */
    _Atomic size_t mean_bytes; /* bytes between two samples of a profile; constant while there is one */
    _Atomic size_t every_bytes; /* bytes between two samples of a heap that is sampled now */
    uint64_t chance;
    int64_t common_left; /* as gb_sampling.left, for threads without a heap, and for all sizes */
    gb_records samples, frames, sites, labels;
    uint32_t chunks, frames_log2; /* of all records; how many frame_heads there are */
    uint32_t sample_free, *sample_heads, *frame_heads, *label_heads; /* the first free record; hash tables */
    uint32_t recent[GB_SAMPLES ? 1 << GB_SAMPLE_RECENT_LOG2 : 1]; /* by hash: the innermost frame of a stack */
    uint64_t live_bytes, peak_bytes, peak_number; /* estimates: sums over all sites */
    double live_noise, peak_noise; /* the squares of their standard errors */
    uint64_t peak_used; /* the exact count at the peak */
    bool late, own; /* blocks were in use before, so the largest estimate is the peak; this process started a profile */
    uint64_t taken, lost; /* samples; those without room for their records */
    void (*written)(void); /* called after a sample was taken, without the lock */
    uint32_t written_ms; /* when the profile was last written */
    uint32_t process, round; /* which wrote it: its number, and how many profiles of that number were there before */
    char path[GB_SAMPLES ? 512 : 1]; /* where it is written */
} gb_sampler;

typedef struct gb_options {
    /* stats: 0, 1 text, 2 json; on_error: 0 abort, 1 count */
    uint32_t verbose, stats, background, on_error, no_huge_pages;
    uint32_t purge_ms, purge_lazily;
    uint32_t secure, no_tags; /* of the secure build: its level, 0 is the default; GLEBE_TAGS=0 */
    uint32_t deepbind; /* pass RTLD_DEEPBIND on: override/dlopen.c */
    size_t limit, guard_bytes, profile_bytes; /* 0: none, none, the default */
} gb_options;

/* The region; there is one. Its first cache line is constant except `slices`, and is all that free() reads of it. */
typedef struct gb_region {
    alignas(64) uintptr_t base; /* address of slice 0 */
    union {
        _Atomic size_t slices; /* how many have a committed entry: an index below it is valid */
        size_t slices_peek;
    };
    gb_page **heads; /* of each slice, the entry of its page's head; not in linear memory */
    /* of the links of free blocks: factors whose product is 1, and the end of lists; not in linear memory */
    uintptr_t key, unkey, end;
    gb_page *table;
    gb_page *large; /* records of large blocks; the table is committed as far as the slice table */
    uintptr_t extents_base; /* where the extents begin */
    gb_extent *extents;
    glebe_heap *heaps; /* GB_HEAP_STRIDE apart */
    gb_chunk *chunk_table;
    gb_bits bits[GB_BITS]; /* one set for a collector that is alone, one shared by all others */
    uint32_t process; /* whose memory this is, in the safe build: the child of a vfork shares it */
    uint64_t *shadow; /* bits for the chunks, in the audit and the safe build: audit.c, held.c */
    gb_heap_bits *heap_bits; /* one entry for 64 heaps */
    uint64_t tail_pattern, tail_few; /* secure build: bytes before a tail, and SECURE_FEW, or 0 at level 3 */

    alignas(64) gb_lock lock; /* guards chunks, extents, and each field that names no other lock */
    bool ready, tags; /* tags: the processor compares them (heap/tags.c) */
    bool heaps_dead; /* some heap is GB_HEAP_DEAD; set before the child of a fork has threads */
    bool reserved; /* the region owns its address space; else each commit takes some */
    _Atomic bool limited; /* not reserved, and the process has a limit: free memory leaves with its address space */
    size_t page_bytes; /* of the OS */
    _Atomic uint32_t now_ms; /* as last read; no lock */
    size_t owned_bytes; /* in use by all heaps of GB_HEAP_OWNED; only where there are samples */

    /* Tables that are committed piece by piece: bytes, from the start of each table. */
    struct {
        size_t large, table, heads, chunk_table, heaps, heap_bits, extents, spans, shadow;
    } committed;

    /* The records of heaps. */
    struct {
        uint32_t made, max;
        uint32_t unused_from; /* no word of heap_bits before this one has an unused heap */
        _Atomic uint32_t in_use; /* a hint for readers that do not hold the lock */
        uint32_t retired; /* how many heaps became unused since the start */
    } records;

    /* Chunks: arena.c. */
    struct {
        uint32_t chunks, chunks_max;
        size_t dirty_slices; /* free, and not purged */
        gb_ends rows[GB_ROWS][GB_LINEAR ? 1 : GB_CHUNK_SLICES + 1]; /* the chunks of each length */
        gb_slice_set rows_filled[GB_ROWS]; /* bits: lengths - 1 that some chunk has */
        gb_queue away; /* chunks without address space of their own, linked by their rows of GB_ROW_FREE */
        /* 0: the huge page timed last was quick; else how many chunks skip huge pages after a slow one */
        uint32_t huge_pages_slow;
        uint32_t huge_pages_left; /* chunks until the next one is timed */
        bool huge_pages_dense; /* the sample chunk that was last looked at was touched densely */
    } arena;

    /* Linear memory: linear.c, tagged.c. */
    struct {
        gb_tagged *bins[GB_TAGGED_BINS]; /* free blocks, and a bit for each bin that may have one */
        uint64_t filled[GB_TAGGED_BINS / 64];
        gb_tagged *warm; /* the block that was freed last, if warm_bytes is not 0 */
        uint32_t warm_bytes;
        /* bytes of the blocks with tags in use, of all heaps; glebe_live.stats.used_bytes leaves them out.
         * gb_heap_main.bytes is reduced by the blocks of other heaps, so gb_heap_held only adds `used` to it */
        size_t used;
        uintptr_t fresh; /* memory from here on was never used */
        uint32_t table_room; /* entries that fit into the table */
    } linear;

    /* Free memory that is retained: bounds.c, queue.c, purge.c. */
    struct {
        _Atomic size_t peak_bytes; /* bound on in-use bytes plus retained bytes */
        _Atomic bool over; /* they exceed the bound: the retainer acts after the request is served */
        gb_queue queue; /* chunks to purge, longest waiting first, linked by `waits` */
        _Atomic uint32_t refused_ms; /* when the host last refused to take memory; 0: never */
    } kept;

    /* Address space of huge blocks: extent.c, idle.c. */
    struct {
        uint32_t granules_max;
        _Atomic uint32_t top; /* the first granule never handed out; 0: none was */
        gb_extent_set sets[GB_HUGE ? GB_EXTENT_SETS : 1]; /* by state, from GB_EXTENT_IDLE on */
        gb_queue idle; /* idle extents, longest waiting first, linked by `waits` */
        uint32_t moved; /* extents whose OS pages were moved */
        uint32_t blocks;
    } huge;

    gb_guards guards;
    /* Blocks of no bytes: zero.c. */
    struct {
        uintptr_t base; /* where they begin */
        _Atomic uint64_t *bits; /* a bit for each block: 1: free */
        _Atomic uint32_t words; /* of `bits`, which have blocks; only grows */
        _Atomic uint32_t next; /* the word where the next search for free blocks begins */
        uint32_t words_max;
        size_t committed, bits_committed; /* bytes; the first only if address space is not reserved */
    } zeros;

    /* Huge pages of huge blocks: span.c. */
    struct {
        uint8_t *states; /* of each 2 MiB of extents */
        uint32_t huge, small; /* spans in each state */
        uint32_t sample; /* the sample span that was last looked at */
        bool dense; /* that sample was touched densely */
    } spans;

    /* Memory pressure: retain.c, pressure.c. */
    struct {
        _Atomic uint32_t looked_ms; /* time of the last look */
        _Atomic uint32_t every_ms; /* how long the result of that look is valid */
        _Atomic uint32_t acted_ms, told_ms; /* time of the last action, and of the last callback */
        glebe_pressure *callback;
        void *context;
    } pressure;

    /* Abandoned heaps: thread.c. */
    struct {
        gb_lock lock; /* guards this struct; taken before the region's lock */
        _Atomic uint32_t first; /* n of the first */
        /* where the searches for pages, holes and remote frees continue, if that heap is still abandoned */
        gb_heap_id next, looked, drained;
    } abandoned;

    gb_common common[GB_THREADS ? GB_COMMON_HEAPS : 1]; /* each has a lock, taken before that of abandoned heaps */
    _Atomic uint32_t common_next; /* the one that the next tick looks at */

    gb_options options;
    const void *shape; /* of this build, for readers outside the process: shape.c */
    _Atomic uint32_t background_state; /* an enum gb_background */
    gb_sampler sampler;
    gb_watch watch;
    gb_ask ask;
    void (*evidence)(const char *call, const void *address, const char *finding); /* evidence.c, or NULL */

    /* Guards the heap if threads share one: entry.h. */
    struct {
        gb_lock lock;
        uint32_t again; /* how often the thread that holds the lock entered again */
    } entry;
} gb_region;

extern gb_region gb_the; /* the default heap is its heap 1 */
extern glebe_heap gb_heap_main; /* malloc's heap, where there are no threads */

#pragma GCC visibility pop

#endif
