/* Every structure of the core, on one page.
 *
 *     low addresses                                                                              high addresses
 *     +-------------+----------+-------------+-------+--- chunks ----------------------+ - - +--- extents ----------+
 *     | slice table | large    | chunk table | heaps | 2 MiB | 2 MiB | ... grows up -->      | of huge blocks,      |
 *     | 64 B/slice  | blocks'  | 136 B/chunk | ext.s'| 128 slices of 16 KiB each     |       | in granules of 64 KiB|
 *     |             | 64 B/4 s.|             | table |                               |       | ... grow up -->      |
 *     +-------------+----------+-------------+-------+---------------------------------+ - - +----------------------+
 *
 * Address space is reserved, or only its place chosen, and committed in pieces. A slice is free, or part of a run: a page of small or medium blocks,
 * or one large block. Entry i of the slice table describes slice i; the entry of a page's first slice (its head)
 * describes the page, the others say how far back the head is. Links between entries are slice numbers, 0 is none:
 * slice 0 is never given out.
 *
 * A large block writes nothing into the slice table: the entries of its slices are those of free ones. It has a record
 * in a table of its own, which is a quarter as long: its run has four slices at least, so no two begin in the same
 * four. Records are numbered like entries.
 *
 *     a small page (one or four slices):            who writes what
 *     | block | block | ... | carved so far | not |  owner only: free, left, bump, state, lists
 *     ^ free -> block -> block -> NULL               any thread: xfree (one compare-and-swap splices a chain)
 *
 * Accounting of a page, `out` being its blocks that are not free in it (in use, in the heap's front, on their way home):
 *     small   CURRENT, AVAIL   left = out               FULL   left = blocks to come back until the page is looked at again
 *             AVAIL, mark m    left = out - cap * (m - 1) / 64: a mark on the way to empty
 *     medium  always           page->out = out
 */
#ifndef GB_TYPES_H
#define GB_TYPES_H

#include "../include/glebe.h"
#include "base/bits.h"
#include "base/config.h"
#include "base/size_class.h"
#include "base/slice_set.h"

#pragma GCC visibility push(hidden)

typedef struct gb_block {
    struct gb_block *next; /* keyed in the secure build: use gb_link_get and gb_link_set */
} gb_block;

/* What a run of slices is. The same in each entry of a page; of a large block, in its record alone. */
enum gb_kind {
    GB_FREE, /* where memory is linear: blocks with tags, free or not */
    GB_SMALL,
    GB_MEDIUM,
    GB_LARGE,
    GB_RESERVED, /* a guard, or address space that is not ours now */
    GB_COLLECTED, /* a page of objects that are collected */
    GB_COLLECTED_LARGE, /* one such object */
};

enum gb_state {
    GB_CURRENT, /* heap->current[class] */
    GB_FULL, /* nothing to give; on heap->full */
    GB_AVAIL, /* has free blocks; on heap->avail[class] */
    GB_SPARE, /* has no block out, and is kept; on heap->spare[class] */
    GB_SINGLE, /* a large block; on heap->large */
    GB_SWEPT, /* collected; on its cursor's list */
};

/* xfree of a small page: offset + 1 of the chain's first block (0: none), its length, whether the page is in an
 * inbox, whether the chain holds every block of the page, and whether the purger has seen that before. */
#define GB_XFREE_COUNT_SHIFT 32
#define GB_XFREE_QUEUED ((uint64_t)1 << 63)
#define GB_XFREE_WHOLE ((uint64_t)1 << 62)
#define GB_XFREE_SEEN ((uint64_t)1 << 61)
#define GB_XFREE_FIRST(x) ((uint32_t)(x))
#define GB_XFREE_COUNT(x) ((uint32_t)((x) >> GB_XFREE_COUNT_SHIFT) & 0x0fffffffu)
#define GB_XFREE_PURGED ((uint64_t)1 << 60) /* the purger took the chain, and the page's memory */
/* notify of a medium page: blocks that other threads freed since the owner last looked, and two of the same states. */
#define GB_NOTIFY_QUEUED ((uint32_t)1 << 31)
#define GB_NOTIFY_PURGED ((uint32_t)1 << 30)
#define GB_NOTIFY_COUNT(x) ((x) & 0x3fffffffu)

/* Marks of small pages that are AVAIL: these, or `left` counts down to mark - 1 64ths of cap (look.c). */
#define GB_UNLOOKED 0 /* its holes were not looked for since */
#define GB_PARKED 255 /* hole.c */
#define GB_OVERFLOWS 1
#define GB_BORN 2
#define GB_MIXED GB_CLASSES /* cls of a page that has blocks of many: mixed.c */
#define GB_MIXED_LATER UINT32_MAX
#define GB_HOLDS_HEAP 255 /* cls of a large block, where there are no threads */
#define GB_HEAP_MAIN UINT32_MAX /* number of the heap that malloc uses there; the others have that of their slice */
#define GB_PAGE_BLOCKS_MAX ((uint32_t)GB_BIG_PAGE_SLICES << (GB_SLICE_LOG2 - 4)) /* the smallest have 16 bytes */
#define GB_PAGE_UNITS ((uint32_t)GB_BIG_PAGE_SLICES << (GB_SLICE_LOG2 - GB_UNIT_LOG2))

typedef struct gb_page {
    alignas(64) union {
        /* gb_owner, in every slice of a page: the fast free's one compare, and a collector's */
        _Atomic uintptr_t owner;
        uintptr_t owner_peek; /* for gb_peek */
    };
    uint32_t back_bytes; /* of table, from this entry to its head's; 0 in the head */
    uint8_t kind;
    /* the head's alone, from here on */
    uint8_t cls; /* of a large block's record: which of its four slices the block begins in */
    uint8_t state;
    union {
        uint8_t mark; /* small */
        uint8_t gc_flags; /* collected: GB_OVERFLOWS, GB_BORN: mark.c */
    };
    union {
        struct {
            union {
                struct {
                    gb_block *free; /* the owner's own frees */
                    _Atomic uint64_t xfree; /* everybody else's */
                };
                struct {
                    _Atomic uint32_t bits; /* 1: free. Any thread sets, the owner and the purger clear */
                    _Atomic uint32_t dirty; /* 1: was in use since it was last known to be zero */
                    _Atomic uint32_t idle; /* 1: was free when the purger last came by, and since */
                    _Atomic uint32_t notify;
                };
                struct {
                    uintptr_t layout; /* of its objects; see glebe_gc_alloc_layout (collected) */
                    uint32_t step; /* bytes of an object */
                    /* ceil(2^32 / step), which is exact in pages this short; 0 where there is one object alone */
                    uint32_t magic;
                };
            };
            union {
                int32_t left; /* small: see the table above */
                int32_t out; /* medium: blocks that are not free in the page */
                uint32_t dense; /* every word of its objects may be a reference (collected, small) */
            };
            _Atomic uint32_t heap; /* its number; valid in the head */
            uint32_t next, prev; /* the one list that the page is on */
            uint32_t inbox_next;
            uint16_t cap; /* blocks that fit */
            uint16_t bump; /* blocks carved so far (small); all (medium) */
            union { /* under the region's lock */
                struct {
                    uint16_t holes; /* units that hold no block in use and no link: bits (small) */
                    uint16_t punched; /* holes whose memory was given back */
                };
                uint32_t cursor; /* number of the one that has the page (collected, small) */
                /* the place of its gb_stack, bytes from the region's base; 0: it is no stack (collected, large,
                 * GB_STACKS) */
                uint32_t stack;
                uint32_t lazy; /* blocks that were given back lazily; only the idle ones' bits count (medium) */
            };
            uint32_t slices;
        };
        uint16_t units[GB_PAGE_UNITS]; /* in other entries than the head, while the page is parked: hole.c */
    };
} gb_page;

_Static_assert(sizeof(gb_page) == 64, "free() finds entries by a shift");

typedef struct gb_list {
    uint32_t first, last;
} gb_list;

/* A block of a small or medium page, as found by a byte that it has. */
typedef struct gb_place {
    uint32_t cls;
    uint32_t index; /* below GB_PAGE_BLOCKS_MAX; where there are many classes, by where the block begins */
    uint32_t inside; /* bytes from its start to that one */
    bool carved; /* it was given out once; else in a page of one class it is the one that will be */
} gb_place;

/* A block with a tag: tagged.c has the picture. */
typedef struct gb_tagged {
    uint32_t before; /* bytes of the block before, if that is free: its last ones */
    uint32_t tag; /* bytes to the next block, and flags */
    struct gb_tagged *next, **link; /* of a free one: in its bin; what leads here */
} gb_tagged;
#define GB_TAG_BYTES offsetof(gb_tagged, next)
#define GB_TAGGED_EXACT 2048 /* shorter ones have bins of one length */
#define GB_TAGGED_BINS (GB_LINEAR ? 512 : 64)

/* What such a block of a heap that is not malloc's begins with. */
typedef struct gb_owned {
    struct gb_owned *next, **link;
    glebe_heap *heap;
    uintptr_t tag; /* the program's bytes begin behind it */
} gb_owned;

/* A chain of freed blocks of one page of another heap, on its way home. */
typedef struct gb_remote {
    uint32_t page;
    uint32_t count;
    gb_block *first, *last;
} gb_remote;

/* The background thread: there is none; it works; it waits for something to purge; in fork's child: it starts with
 * the next tick. */
enum gb_background { GB_BACKGROUND_OFF, GB_BACKGROUND_RUNS, GB_BACKGROUND_SLEEPS, GB_BACKGROUND_DUE };

enum gb_heap_kind { GB_HEAP_UNUSED, GB_HEAP_THREAD, GB_HEAP_ABANDONED, GB_HEAP_OWNED /* the program's */, GB_HEAP_DEAD /* of a thread that fork left behind */ };

struct glebe_heap {
    gb_block *front[GB_SMALL_CLASSES]; /* malloc pops here and looks at nothing else */
    /* of each medium class, the block that was freed last; it counts as out */
    void *warm[GB_CLASSES - GB_SMALL_CLASSES + GB_LINEAR];
    uint32_t current[GB_CLASSES];
    uint32_t mixed; /* its page of blocks of many classes; 0: none; GB_MIXED_LATER: when it wants one */
    gb_list avail[GB_CLASSES]; /* longest waiting first: it has had the most time to gather free blocks */
    uint32_t class_slices[GB_CLASSES]; /* demand: decides the size of the next page */
    gb_list spare[GB_SMALL_CLASSES];
    uint64_t spare_classes; /* bits: which of these lists have a page */
    gb_list full, large;
    gb_owned *owned; /* its blocks with tags, where it is not malloc's */
    size_t spare_bytes;
    size_t small_bytes; /* all small pages */
    size_t avail_bytes; /* small pages on avail lists: what trimming could find holes in */
    uint32_t unlooked[GB_LINEAR ? 1 : GB_SMALL_CLASSES]; /* those with GB_UNLOOKED */
    /* memory waits to go back: the next slow event does a step, and comes soon, since blocks are handed out one by
     * one */
    bool waits;
    bool rests; /* it was left alone for so long that what is free in it goes back, a step with each slow event */
    uint32_t rest_ms; /* what was free then goes */
    uint32_t looks_left, looks_ms; /* until looks_ms + purge_ms; see gb_bounds_look */
    size_t grown_bytes; /* the most that it held when it last grew, or a little more: gb_bounds_grow */
    size_t limit_bytes;
    size_t collected_bytes; /* of pages and objects of a collector, which keeps its own lists */
    /* what was last asked for, if the process's limit stood against it, else 0; under the region's lock */
    size_t refused_bytes;
    _Atomic size_t bytes; /* pages, large and huge blocks; atomic for readers only */
    int32_t tick; /* slow events until the clock is looked at */
    uint32_t tick_ms; /* when the clock was last looked at */
    uint64_t tick_cycles; /* the same by gb_cycles */
    uint32_t number;
    _Atomic uint32_t kind; /* atomic for gb_remote_free of others */
    uint32_t next; /* in the list of abandoned heaps */
    uint32_t huge; /* its first extent */
    _Atomic uint32_t inbox; /* pages that others freed blocks of */
    uint32_t inbox_taken; /* those that the owner took out, and will look at in steps */
    gb_remote remote[GB_REMOTE_SLOTS];
    struct gb_pool *pools;
};

/* ---- requests ---- */

/* A request for a block. Each source reads the fields that it needs. */
typedef struct gb_request {
    size_t bytes;
    size_t alignment; /* a power of two */
    size_t room; /* it may grow to so many bytes where it is; 0: it need not */
    void *block; /* it takes the place of this block, which grows; NULL: of none */
    size_t dirty; /* the answer: so many bytes from its start may not be zero */
    uint32_t cls; /* of small and medium blocks */
    bool collected; /* a huge block is a collector's object */
} gb_request;

/* A block for the request from what there is, or NULL. Owner. */
typedef void *gb_source(glebe_heap *heap, gb_request *request);

/* ---- pools: pool.c has the picture ---- */

typedef struct gb_span {
    struct gb_span *next;
    uintptr_t start, end; /* of its units */
    size_t bytes; /* of its block, where there are several */
    uint16_t *states; /* of each unit (audit build) */
} gb_span;

typedef struct gb_pool {
    glebe_heap *heap;
    struct gb_pool *next, **link; /* in heap->pools */
    gb_span *spans, *current; /* oldest first; those behind `current` are empty */
    gb_span whole; /* the one that there is where pools are one piece */
    uintptr_t fresh; /* in `current`: from here to its end nothing was given out */
    size_t limit_bytes, step_bytes, held_bytes;
    bool own; /* the heap is the pool's */
    void **lists; /* free objects, by units: the open ones, or hidden behind them (audit build) */
    glebe_pool open; /* what the program sees */
    void *open_lists[];
} gb_pool;

_Static_assert(offsetof(gb_pool, open_lists) == offsetof(gb_pool, open) + sizeof(glebe_pool),
    "glebe_pool_alloc finds the lists there");

/* ---- collected objects ---- */

/* Where objects of one class and one layout come from: a hole in one of its pages, which is zero and counts as
 * handed out. */
typedef struct gb_cursor {
    uintptr_t at, end; /* of the hole; equal: none */
    uintptr_t layout;
    uint32_t cls;
    uint32_t page; /* that the hole is in; behind it are those that were not swept yet; 0: all were */
    uint32_t early; /* bytes that went to the conservative pages before this layout got its own */
    gb_list pages;
} gb_cursor;

typedef struct gb_recent {
    uintptr_t layout;
    size_t eights; /* of the bytes that were asked for */
    uint32_t step; /* the object's */
    gb_cursor *cursor; /* NULL: nothing is here */
} gb_recent;

/* Items of tables, which begin with their key, complemented: table.c. */
typedef struct gb_final {
    uintptr_t object;
    glebe_gc_final *function; /* NULL: it runs, and there is no other */
    void *context;
    uint32_t running; /* that were called for this object, and did not return: it stays */
    bool ready; /* the object was found unreachable: it stays until the function was called */
} gb_final;

typedef struct gb_weak {
    uintptr_t slot;
    uint32_t times; /* added, less removed */
} gb_weak;

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

/* Where collected objects begin: bits, GB_SLICE_BITS for a slice. */
typedef struct gb_bits {
    uint64_t *allocated; /* an object begins in this cell */
    uint64_t *unmarked; /* the same, while a collection runs: and was not reached yet; else all 0 */
    size_t allocated_committed, unmarked_committed; /* bytes, from each start */
    uint32_t collectors; /* that have their objects here; 0: the tables may be shorter than the slices' */
} gb_bits;
#define GB_BITS (GB_LINEAR ? 1 : 2)

/* A collected object in an extent of its own: huge_object.c. */
typedef struct gb_huge_object {
    uintptr_t from, to;
    uintptr_t layout;
    bool marked;
    bool waits; /* is marked, and to be scanned */
    bool born; /* while marking ran */
} gb_huge_object;

#define GB_MARK_FEW 64
#define GB_OBJECT_CLASSES (GB_LINEAR ? GB_CLASSES : GB_SMALL_CLASSES) /* malloc's of up to 2 KiB */
/* behind them those of 8, 24, 40 and 56 bytes, where cells have 8 */
#define GB_COLLECTED_CLASSES (GB_OBJECT_CLASSES + 4)
#define GB_PRECISE_CURSORS 64 /* layouts that have pages of their own; further ones share the conservative pages */
/* Cursors by number: of pages whose every word counts, of plain ones, of layouts. */
#define GB_SCANNED 0
#define GB_PLAINS GB_COLLECTED_CLASSES
#define GB_PRECISE (2 * GB_COLLECTED_CLASSES)
#define GB_RECENTS 64
#define GB_CURSORS (GB_PRECISE + GB_PRECISE_CURSORS)

struct glebe_gc {
    gb_cursor cursors[GB_CURSORS];
    gb_recent recent[GB_RECENTS]; /* by layout and size: found without a look for its cursor */
    glebe_heap *heap; /* that owns the pages; the blocks that it gives by malloc are the collector's own tables */
    gb_bits *bits; /* its tables; see gb_bits_of */
    gb_list large;
    gb_table huge; /* an array, sorted by address */
    uintptr_t huge_from; /* of the first; and to the end of the last: */
    size_t huge_span;
    size_t huge_bytes;
    uint32_t huge_waiting;
    uintptr_t stack_pointer; /* as the collection began: what lies below it in its stack is dead (GB_STACKS) */
    size_t taken_bytes; /* handed out, holes whole, since the last collection */
    size_t trigger_bytes; /* a collection is due when so many are */
    size_t least_bytes; /* the trigger is never below */
    size_t live_bytes, roots_bytes; /* as the last collection found them */
    uint32_t percent; /* of live and roots: the trigger */
    bool due; /* an allocation failed because a collection is */
    uint8_t forced; /* if not 0, memory may grow although it is, and no collection begins: how many want that */
    bool marking;
    bool born; /* something was allocated since marking began */
    bool calling; /* the program, which may not end the collection then */
    uint32_t every, until; /* stress: collect at every n-th allocation; 0: not */
    uintptr_t *stack; /* of addresses to scan from */
    uintptr_t few[GB_MARK_FEW]; /* it, where there is no memory for more */
    uint32_t stack_count, stack_room;
    uint32_t overflow; /* list of pages with marked objects that found no room there */
    gb_table roots, weak, finals; /* of gb_rooted, gb_weak, gb_final */
    uint32_t ready, ready_at; /* finalizers that are; where in the table the next is looked for */
    glebe_gc_marker *marker;
    glebe_gc_listener *listener;
    void *marker_context, *listener_context;
    glebe_gc_stats stats;
};

/* A chunk is found by the length of its longest row of free slices, and by that of free slices that are dirty. */
enum gb_row_kind { GB_ROW_FREE, GB_ROW_DIRTY, GB_ROWS };
typedef struct gb_row {
    struct gb_chunk *next, *prev; /* chunks whose longest row has this length */
    uint32_t slices; /* 0: there is none, and the chunk is on no list */
} gb_row;

/* What a scheduler says of a stack that waits: [start, low) and [high, its end) are in use (GB_STACKS). */
typedef struct gb_stack {
    uintptr_t low, high, start;
} gb_stack;

/* 2 MiB of slices. All of it under the region's lock, but `touched_ms` and `queued`, which are hints. */
typedef struct gb_chunk {
    gb_slice_set free;
    gb_slice_set dirty; /* may hold something other than zero */
    gb_slice_set idle; /* free and dirty when the purger last came by, and since */
    gb_slice_set lazy; /* given back lazily: not known to be zero; only the idle ones' bits count */
    gb_row rows[GB_ROWS];
    struct gb_chunk *purge_next; /* in the purge queue */
    uint32_t purge_ms; /* when it was queued */
    _Atomic uint32_t touched_ms; /* when memory in it was last freed */
    _Atomic uint8_t queued;
    uint8_t free_slices;
    uint8_t huge_pages; /* advised */
} gb_chunk;

typedef struct gb_chunks {
    gb_chunk *first, *last;
    _Atomic uint32_t count; /* for a look without the lock */
} gb_chunks;

/* Address space of huge blocks: extent.c has the picture. */
enum gb_extent_state {
    GB_EXTENT_INSIDE, /* the entry of a granule that begins none */
    GB_EXTENT_EDGE, /* the first granule, which is no block's */
    GB_EXTENT_USED,
    GB_EXTENT_IDLE, /* the free ones, in the order in which they are wanted */
    GB_EXTENT_LAZY,
    GB_EXTENT_CLEAN,
    GB_EXTENT_AWAY,
    GB_EXTENT_LOST,
};
#define GB_EXTENT_SETS (GB_EXTENT_LOST - GB_EXTENT_IDLE + 1)
#define GB_EXTENT_BINS 128
typedef struct gb_extent {
    size_t bytes; /* of the block, in OS pages */
    size_t committed; /* bytes from the start (used) */
    size_t dirty; /* bytes from the start that may hold something other than zero (used) */
    uint32_t granules;
    uint32_t before; /* in the entry of its last granule: how many it has */
    uint32_t next, prev; /* numbers; the heap's blocks, or free ones of a state and about that length */
    uint32_t heap; /* (used) */
    uint32_t idle_next, idle_prev; /* of the idle ones */
    uint32_t idle_ms; /* since when it is */
    uint8_t state;
    uint8_t collected; /* a collector's object (used) */
    uint8_t room; /* what is not committed of it stays its own (used) */
    uint8_t moved; /* its pages are from elsewhere: a mapping of its own */
    uint8_t deferred; /* how often its time began again, for it has parts of huge pages (idle) */
} gb_extent;

/* Of 2 MiB of extents: span.c. */
enum gb_span_state {
    GB_SPAN_NONE,
    GB_SPAN_HUGE, /* asked for a huge page */
    GB_SPAN_SMALL, /* did, and asks for small pages, since a part of it went back */
};

typedef struct gb_extent_set {
    uint64_t filled[GB_EXTENT_BINS / 64];
    uint32_t first[GB_EXTENT_BINS];
    uint32_t count;
} gb_extent_set;

/* What a huge block wants of its place. */
typedef struct gb_extent_place {
    size_t room; /* bytes that are its own from the start; 0: as many as it has */
    size_t behind; /* bytes that should be free behind it, for it may grow */
    bool clean; /* no idle memory: its pages are to be moved there */
} gb_extent_place;

/* no two share a cache line; an OS page may hold parts of several */
#define GB_HEAP_STRIDE ((sizeof(struct glebe_heap) + 63) / 64 * 64)

typedef struct gb_heap_bits {
    uint64_t unused;
    uint64_t touched; /* unused, and not given back since */
} gb_heap_bits;

typedef struct gb_lock {
    _Atomic uint32_t word; /* 0 free, 1 held, 2 held and waited for */
} gb_lock;

/* What a step of purging may still cost. One that is spent is 0 in either. */
typedef struct gb_purge_budget {
    size_t bytes;
    uint32_t calls;
    bool refused; /* the host did not take some memory back */
} gb_purge_budget;

typedef struct gb_options {
    /* stats: 0, 1 text, 2 json; on_error: 0 abort, 1 count */
    uint32_t verbose, stats, background, on_error, no_huge_pages;
    uint32_t purge_ms, purge_lazily;
    uint32_t deepbind; /* RTLD_DEEPBIND is passed on: override/dlopen.c */
    size_t limit;
} gb_options;

/* The one region. Its first line is constant but for `slices`, and all that free() reads of it. */
typedef struct gb_region {
    alignas(64) uintptr_t base; /* address of slice 0 */
    union {
        _Atomic size_t slices; /* whose entries are committed: an index below it may be looked up */
        size_t slices_peek;
    };
    gb_page *table;
    gb_page *large; /* records of large blocks: behind the table, and committed as far */
    uintptr_t extents_base; /* of huge blocks */
    gb_extent *extents;
    glebe_heap *heaps; /* GB_HEAP_STRIDE apart */
    gb_chunk *chunk_table;
    uintptr_t key; /* of the links, in the secure build */
    gb_bits bits[GB_BITS]; /* of the collector that is alone in them; of all others */
    uint64_t *shadow; /* of the chunks, in the audit build: see secure.c */
    gb_heap_bits *heap_bits; /* one for 64 heaps */

    alignas(64) gb_lock lock; /* guards all that names no other, and every chunk and extent */
    bool ready;
    bool heaps_dead; /* some heap is GB_HEAP_DEAD; set before the child of a fork has threads */
    bool reserved; /* the region's address space is ours; else each commit takes its own */
    _Atomic bool limited; /* it is not, and the process has a limit: what is free leaves with its address space */
    size_t page_bytes; /* of the OS */
    _Atomic uint32_t now_ms; /* as last seen; no lock */

    /* Tables that are committed piece by piece: bytes, from each start. */
    struct {
        size_t large, table, chunk_table, heaps, heap_bits, extents, spans, shadow;
    } committed;

    /* The records of heaps. */
    struct {
        uint32_t made, max;
        uint32_t unused_from; /* no bits before this word say that a heap is unused */
        uint32_t retired; /* how many became unused since the start */
    } records;

    /* Chunks: arena.c. */
    struct {
        uint32_t chunks, chunks_max;
        size_t dirty_slices; /* free, but not given back */
        gb_chunk *rows[GB_ROWS][GB_LINEAR ? 1 : GB_CHUNK_SLICES + 1]; /* the first chunk of each length */
        gb_slice_set rows_filled[GB_ROWS]; /* lengths - 1 that some chunk has */
        gb_chunks away; /* those without address space of their own, linked by `next` */
        /* 0: huge pages were quick to come; else how many chunks went without when one was slow last */
        uint32_t huge_pages_slow;
        uint32_t huge_pages_left; /* chunks until the next is timed */
        bool huge_pages_dense; /* the chunk that was last looked at was touched densely */
    } arena;

    /* Memory that is one piece: linear.c, tagged.c. */
    struct {
        gb_tagged *bins[GB_TAGGED_BINS]; /* free blocks, and which bins may have one */
        uint64_t filled[GB_TAGGED_BINS / 64];
        gb_tagged *warm; /* the one that was freed last, if warm_bytes is not 0 */
        uint32_t warm_bytes;
        /* bytes of blocks with tags in use: of the process, and, but for owned ones, of malloc's heap; no other count
         * has them */
        size_t used;
        uintptr_t fresh; /* from here on all was never used */
        uint32_t table_room; /* entries that the table has room for */
    } linear;

    /* What is free and kept: bounds.c, queue.c, purge.c. */
    struct {
        size_t peak_bytes; /* what is in use, or free and not given back, may come to so much */
        _Atomic bool over; /* it is more than that: the retainer acts when the request is served */
        gb_chunks queue; /* of chunks to purge, longest waiting first, linked by `purge_next` */
        _Atomic uint32_t refused_ms; /* when the host last took no memory back; 0: never */
    } kept;

    /* Address space of huge blocks: extent.c, idle.c. */
    struct {
        uint32_t granules_max;
        _Atomic uint32_t top; /* the first granule that was never handed out; 0: none was */
        gb_extent_set sets[GB_LINEAR ? 1 : GB_EXTENT_SETS]; /* by state, from GB_EXTENT_IDLE on */
        _Atomic uint32_t idle_first; /* idle extents, longest waiting first; atomic for a look without the lock */
        uint32_t idle_last;
        uint32_t moved; /* extents whose pages are from elsewhere */
        uint32_t blocks;
    } huge;

    /* Their huge pages: span.c. */
    struct {
        uint8_t *states; /* of each 2 MiB of extents */
        uint32_t huge, small; /* how many are */
        uint32_t sample; /* that was last looked at */
        bool dense; /* it was touched densely */
    } spans;

    /* Memory pressure: retain.c, pressure.c. */
    struct {
        _Atomic uint32_t looked_ms; /* when it was last looked at */
        _Atomic uint32_t every_ms; /* how long that look is good for */
        _Atomic uint32_t acted_ms, told_ms; /* when something was last done about it, and the program told */
        glebe_pressure *callback;
        void *context;
    } pressure;

    /* Abandoned heaps: thread.c. */
    struct {
        gb_lock lock; /* of this struct; taken before the region's */
        _Atomic uint32_t first;
        uint32_t next, looked, drained; /* where a search for pages, holes, freed blocks goes on, if it is one still */
    } abandoned;

    gb_options options;
    _Atomic uint32_t background_state; /* a gb_background */

    /* Around the heap where threads share it: entry.h. */
    struct {
        gb_lock lock;
        uint32_t again; /* how often its holder entered again */
    } entry;
} gb_region;

extern gb_region gb_the; /* the region; the default heap is its heap 1 */
extern glebe_heap gb_heap_main; /* that heap, where there are no threads */

#pragma GCC visibility pop

#endif
