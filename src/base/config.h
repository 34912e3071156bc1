/* Options of a build, each a constant, so that every branch compiles in every build and `if` takes the place of `#if`.
 * A build is chosen with -DGB_SECURE=1 or -DGB_AUDIT=1; nothing else needs to be set. */
#ifndef GB_CONFIG_H
#define GB_CONFIG_H

#ifndef GB_SECURE
/* keyed links, freed stamps, random carving, quarantine, guard slices: finds double and interior frees */
#define GB_SECURE 0
#endif
#ifndef GB_AUDIT
/* a shadow bit for every block; the heap checks itself as it works, and so finds the allocator's own mistakes */
#define GB_AUDIT 0
#endif

/* Where memory is one piece that grows at its end (WebAssembly): slices of an array with no chunks, no purging, no
 * huge blocks, no other thread to share it with. linear.c takes the place of arena.c. The tests build it for other
 * hosts too. */
#ifndef GB_LINEAR
#ifdef __wasm__
#define GB_LINEAR 1
#else
#define GB_LINEAR 0
#endif
#endif
#if GB_LINEAR && (GB_SECURE || GB_AUDIT)
#error "the secure and the audit build want memory that is not linear"
#endif
#if defined(GB_WORDS)
#elif defined(__wasm__)
#define GB_WORDS 0 /* a program of some KB has no room for them: misuse traps, and that is all */
#else
#define GB_WORDS 1
#endif
#ifndef GB_CALLBACKS
/* a collector has what C programs want of one: roots, markers, listeners, weak references. Without, no indirect call */
#define GB_CALLBACKS 1
#endif

/* Between these two the compiler prefers short code there, whatever its flags: it runs once a page or once a
 * collection. */
#if !GB_WORDS && defined(__clang__)
#define GB_SHORT_BEGIN _Pragma("clang attribute push(__attribute__((minsize)), apply_to = function)")
#define GB_SHORT_END _Pragma("clang attribute pop")
#else
#define GB_SHORT_BEGIN
#define GB_SHORT_END
#endif
#define GB_HEAPS GB_CALLBACKS /* there are heaps beside malloc's */
/* The same for malloc, where it is beside the point. */
#if GB_CALLBACKS
#define GB_MALLOC_BEGIN
#define GB_MALLOC_END
#define GB_MALLOC_INLINE GB_INLINE
#else
#define GB_MALLOC_BEGIN GB_SHORT_BEGIN
#define GB_MALLOC_END GB_SHORT_END
#define GB_MALLOC_INLINE static GB_NOINLINE
#endif
/* Threads that share linear memory share its one heap, by a lock around it: entry.h. */
#ifndef GB_SHARED
#ifdef __wasm_atomics__
#define GB_SHARED 1
#else
#define GB_SHARED 0
#endif
#endif
#ifdef __wasi__
/* who waits for that lock may sleep, unless its thread says otherwise; elsewhere it might be a browser's main thread */
#define GB_SLEEPS 1
#else
#define GB_SLEEPS 0
#endif
#if GB_SHARED && !GB_LINEAR
#error "one heap for all threads is for memory that is linear"
#endif
#define GB_THREADS (!GB_LINEAR) /* heaps per thread, frees across them, abandoned heaps */
#define GB_HUGE (!GB_LINEAR) /* blocks over 1 MiB are extents */
#define GB_PURGES (!GB_LINEAR) /* memory can go back to the host: spare pages, holes, ticks */
#define GB_MIXES (!GB_LINEAR && !GB_SECURE) /* a program's heap begins with blocks of many classes in one page */

/* Blocks that are not ours come to free() as a matter of course, from C libraries that keep a heap of their own: the
 * port sends them home. Elsewhere it is misuse. */
#ifndef GB_FOREIGN
#ifdef _WIN32
#define GB_FOREIGN 1
#else
#define GB_FOREIGN 0
#endif
#endif

/* GB_AT_START(f): f runs when the library is loaded; GB_AT_END(f): when the program ends. On Windows every C library
 * calls what a section lists, and has nothing of the kind for the end: gb_port_start sees to that. */
#ifdef _WIN32
#define GB_TLS_MODEL /* there is one */
#define GB_AT_START(f) __attribute__((section(".CRT$XCU"), used)) static void (*const f##_row)(void) = f;
#define GB_AT_END(f)
#else
#define GB_TLS_MODEL __attribute__((tls_model("initial-exec")))
#define GB_AT_START(f) __attribute__((constructor)) static void f##_at_start(void) { f(); }
#define GB_AT_END(f) __attribute__((destructor)) static void f##_at_end(void) { f(); }
#endif

#ifndef GB_COPY
#define GB_COPY "" /* " of the crate": what the texts at exit say, where a process may have several copies */
#endif

#ifndef GB_IS_MALLOC
#define GB_IS_MALLOC 0 /* set by code that includes the whole of glebe and defines malloc by it (WebAssembly) */
#endif

#ifndef GB_STACKS
/* large objects may be stacks, of which only the ends in use are scanned: stack.c (TinyGo's goroutines) */
#define GB_STACKS 0
#endif

#ifndef GB_PROBED
#define GB_PROBED() ((void)0) /* a test counts the steps in tables */
#endif

#ifndef GB_MARK_LEAST
#define GB_MARK_LEAST 512 /* addresses that a collector's stack has room for, if there is memory */
#endif

#ifndef GB_PLACE_LOG2
#define GB_PLACE_LOG2 36 /* least room for chunks where none is reserved */
#define GB_PLACE_MOST_LOG2 42
#endif

#define GB_ADDRESS_PLENTY ((size_t)1 << (sizeof(size_t) == 8 ? 39 : 31)) /* a process that may have less is limited */
#ifndef GB_AWAY_MOST
#define GB_AWAY_MOST 4096 /* extents between others that are not committed, and */
#define GB_MOVED_MOST 1024 /* those whose pages were moved: mappings, of which Linux allows 65530 by default */
#endif

#define GB_SLICE_LOG2 (GB_LINEAR ? 12 : 14) /* the unit of pages and large blocks; docs/decisions/0001 says why */
#define GB_CHUNK_LOG2 (GB_LINEAR ? 19 : 21) /* what is committed at once, and what a huge page covers */
#define GB_GRANULE_LOG2 16 /* what address space of huge blocks is counted in; an OS page is no larger */
#define GB_UNIT_LOG2 12 /* what a hole in a page is counted in; an OS page may be larger, never smaller */

#define GB_CELL_BYTES (2 * sizeof(void *)) /* collected objects begin at multiples of it */
#define GB_SLICE_BITS ((uint32_t)(GB_SLICE_BYTES / GB_CELL_BYTES)) /* a bit for each such place */
#define GB_SHADOW_LOG2 7 /* the audit build's shadow: a bit for 16 bytes */

#define GB_SLICE_BYTES ((size_t)1 << GB_SLICE_LOG2)
#define GB_CHUNK_BYTES ((size_t)1 << GB_CHUNK_LOG2)
#define GB_GRANULE_BYTES ((size_t)1 << GB_GRANULE_LOG2)
#define GB_UNIT_BYTES ((size_t)1 << GB_UNIT_LOG2)
#define GB_CHUNK_SLICES ((uint32_t)1 << (GB_CHUNK_LOG2 - GB_SLICE_LOG2))

#define GB_SMALL_MAX ((size_t)(GB_LINEAR ? 512 : 2048)) /* free blocks linked through themselves; the fast path */
#define GB_OBJECT_MAX ((size_t)2048) /* collected objects that share pages */
/* free blocks are bits in the page's entry; where memory is linear, no more than the last class */
#define GB_MEDIUM_MAX (GB_LINEAR ? GB_OBJECT_MAX : (size_t)64 << 10)
/* a run of slices of its own; beyond it an extent */
#define GB_LARGE_MAX (GB_LINEAR ? ((size_t)1 << 31) - 1 : (size_t)1 << 20)
#define GB_LARGE_LEAST ((uint32_t)4) /* slices of its run: no two begin in the same four, which have one record */
/* a block that has grown so far gets such an extent: it may grow on */
#define GB_GROWN_FROM (GB_LINEAR ? SIZE_MAX : (size_t)256 << 10)

#define GB_FEW_BLOCKS 8 /* a page's list is worth taking as it is from so many on */
/* blocks that must be freed before a full page is used again, where an eighth is fewer */
#define GB_WAKE_LEAST (GB_LINEAR ? 2 : 12)
#define GB_BIG_PAGE_SLICES 4 /* pages of a small class that is in demand; of a medium one, see tools/size-classes */
#define GB_DEMAND 2 /* a class is in demand once it holds slices for so many such pages */

#define GB_REMOTE_SLOTS 8 /* pages of other heaps whose freed blocks a heap collects before it sends them home */
#define GB_REMOTE_BLOCKS 32 /* a slot is sent home at this many blocks */

/* chunks from this size of heap on ask for huge pages; docs/decisions/0004 */
#define GB_HUGE_PAGES_FROM ((size_t)64 << 20)
/* huge blocks that grow by small steps do beside so much memory in use */
#define GB_HUGE_BLOCKS_FROM ((size_t)16 << 20)

#ifndef GB_TRIM_FROM
/* bytes of available pages from which emptying ones are searched for holes, with the background thread */
#define GB_TRIM_FROM ((size_t)1 << 20)
#endif

/* What is free and kept does not take the process beyond the most that was ever in use, this share of that, and so
 * many bytes; and another share of what huge blocks took beyond this size, for these replace each other at other
 * lengths (docs/decisions/0027). */
#define GB_KEPT_SHARE 16
#define GB_KEPT_BYTES ((size_t)32 << 10)
#define GB_KEPT_HUGE_SHARE 8
#define GB_KEPT_HUGE_FROM ((size_t)32 << 20)

#define GB_TICK_EVENTS 16 /* slow events between two looks at the clock */
#define GB_TICK_CYCLES ((uint64_t)1 << 28) /* or this time by gb_cycles: a tenth of a second */
#define GB_STEP_CYCLES (GB_TICK_CYCLES >> 8) /* what a step may take: 0.4 ms */
#define GB_PURGE_MS 500 /* default of the option purge_ms */

#define GB_MAX_BYTES ((size_t)PTRDIFF_MAX) /* larger requests fail, as the standard library's do */
/* no host has more: a request fails at once */
#define GB_BLOCK_MAX (GB_LINEAR ? ((size_t)1 << 31) - ((size_t)1 << 21) : sizeof(size_t) == 8 ? (size_t)1 << (sizeof(size_t) == 8 ? 46 : 0) : GB_MAX_BYTES)

#endif
