/* Options of a build. Each is a constant, so every branch compiles in every build, and `if` takes the place of
 * `#if`. -DGB_SECURE=1 or -DGB_AUDIT=1 chooses a build; nothing else needs to be set. */
#ifndef GB_CONFIG_H
#define GB_CONFIG_H

#ifndef GB_SECURE
/* a tail behind each block, free blocks that are zero, random order, guards: finds overflows, writes to free blocks,
 * and wrong frees. heap/secure.c has the picture */
#define GB_SECURE 0
#endif
#ifndef GB_AUDIT
/* a shadow bit for each block; the heap checks itself as it works, which finds the allocator's own mistakes */
#define GB_AUDIT 0
#endif

#ifndef GB_SAFE
/* a freed block is used again only when no word of the program's memory points into it: serve/safe.c */
#define GB_SAFE 0
#endif

/* Linear memory is one piece that grows at its end (WebAssembly). Slices are one array: no chunks, no purging, no
 * huge blocks, no heap for each thread. linear.c takes the place of arena.c. The tests build it for other hosts too. */
#ifndef GB_LINEAR
#ifdef __wasm__
#define GB_LINEAR 1
#else
#define GB_LINEAR 0
#endif
#endif
#if GB_LINEAR && (GB_SECURE || GB_AUDIT)
#error "the secure and the audit build require memory that is not linear"
#endif
#if GB_SAFE && (GB_SECURE || GB_AUDIT || !defined(__linux__) || !defined(__LP64__))
#error "the safe build is a build of its own, for Linux on 64 bits"
#endif
#if defined(GB_WORDS)
#elif defined(__wasm__)
#define GB_WORDS 0 /* a program of a few KB has no room for messages: misuse only traps */
#else
#define GB_WORDS 1
#endif
/* The processor counts bits in one instruction. 0: the compiler would call a function of its library. */
#if defined(__POPCNT__) || defined(__wasm__) || defined(__aarch64__)
#define GB_POPCOUNT 1
#else
#define GB_POPCOUNT 0
#endif
#ifndef GB_CALLBACKS
/* the collector has roots, markers, listeners and weak references, for C programs. 0: no indirect call */
#define GB_CALLBACKS 1
#endif
#ifndef GB_WEAK
/* the collector has weak references; 2: also late ones, which are cleared when the object is freed. It may be a
 * variable, which a program without weak references never sets */
#define GB_WEAK GB_CALLBACKS
#endif
#ifndef GB_FINALIZERS
/* the collector has finalizers; it may be a variable too */
#define GB_FINALIZERS 1
#endif
#ifndef GB_TALLIES
/* the statistics have bytes by kind of page, the peak, and counts of pages and failures. 0: only the bytes in use, of
 * the heap and of its table */
#define GB_TALLIES GB_CALLBACKS
#endif

/* In code between these two the compiler prefers short code, whatever its flags: the code runs once per page or once
 * per collection. */
#if !GB_WORDS && defined(__clang__)
#define GB_SHORT_BEGIN _Pragma("clang attribute push(__attribute__((minsize)), apply_to = function)")
#define GB_SHORT_END _Pragma("clang attribute pop")
#else
#define GB_SHORT_BEGIN
#define GB_SHORT_END
#endif
#define GB_HEAPS GB_CALLBACKS /* there are heaps besides malloc's */
/* The collector has kinds, pins, links, and finalizers in several orders, for runtimes of languages on hosts. */
#define GB_RUNTIMES (GB_CALLBACKS && !GB_LINEAR)
/* Short code for malloc too, in builds where its speed does not matter. */
#if GB_CALLBACKS
#define GB_MALLOC_BEGIN
#define GB_MALLOC_END
#define GB_MALLOC_INLINE GB_INLINE
#else
#define GB_MALLOC_BEGIN GB_SHORT_BEGIN
#define GB_MALLOC_END GB_SHORT_END
#define GB_MALLOC_INLINE static GB_NOINLINE
#endif
/* Threads that share linear memory share its one heap, behind a lock: entry.h. */
#ifndef GB_SHARED
#ifdef __wasm_atomics__
#define GB_SHARED 1
#else
#define GB_SHARED 0
#endif
#endif
#ifdef __wasi__
/* a thread may sleep while it waits for that lock, unless it calls glebe_thread_wait(false); elsewhere it may be a
 * browser's main thread */
#define GB_SLEEPS 1
#else
#define GB_SLEEPS 0
#endif
#if GB_SHARED && !GB_LINEAR
#error "one heap for all threads requires linear memory"
#endif
#define GB_THREADS (!GB_LINEAR) /* a heap for each thread, remote frees, abandoned heaps */
#define GB_TAGGED GB_LINEAR /* malloc's larger blocks have tags: linear/tagged.c; else: medium, large and huge blocks */
#define GB_HUGE (!GB_LINEAR) /* blocks over 1 MiB are extents */
#define GB_PURGES (!GB_LINEAR) /* memory can be returned to the host: spare pages, holes, ticks */
#define GB_TRACES (!GB_LINEAR) /* the loop of marking is trace.c's, which fetches memory ahead; else that of mark.c */
#define GB_SHORT GB_LINEAR /* a program may be a few KB: short code and tables come before quick ones */
/* Links of free blocks are keyed, and in their second word, where a short overflow of the block before does not reach.
 * In the secure build they are in the block's tail. docs/decisions/0098 */
#ifndef GB_KEYED
#define GB_KEYED (!GB_LINEAR)
#endif
#define GB_LINK_AT (GB_KEYED && !GB_SECURE ? sizeof(void *) : 0)
/* the byte before a link is a mark, by which free() suspects that the block is free already */
#define GB_MARKS_LINKS (GB_KEYED && !GB_SECURE && sizeof(void *) == 8)
#define GB_LINK_MARK 0xa5
/* of a list's end; no address has them, nor one without its top byte */
#define GB_END_BITS UINT64_C(0x8080000000000000)
#define GB_MARK_AT (sizeof(void *) - 1)
/* A thread's heap has a copy of the table of small classes, so that malloc needs no instruction for the table's
 * address. It lies in an OS page of its own, which the program's heaps (glebe_heap_create) never touch. */
#if defined(__x86_64__) && !defined(__ILP32__)
#define GB_CLASS_COPIES (GB_KEYED && !GB_SECURE && !GB_SAFE)
#else
#define GB_CLASS_COPIES 0
#endif
#define GB_CLASS_COPY_AT ((size_t)4096) /* from the heap's start: the struct is shorter */
/* malloc(0) returns an address without memory: heap/zero.c. Linear memory has no pages that nobody may read. */
#define GB_ZEROS (!GB_LINEAR)
#define GB_ZERO_BYTES ((size_t)16) /* from one such address to the next */
#define GB_TAIL_BYTES ((size_t)(GB_SECURE ? 8 : 0)) /* the end of a small or medium block, which is not the program's */
#define GB_HEADS (!GB_LINEAR) /* a table leads from a slice to its page's head */
#define GB_MIXES (!GB_LINEAR && !GB_SECURE) /* a small heap begins with a mixed page: blocks of many classes */

/* A profiler can sample allocations: heap/sample.c. Not in the secure and the audit build, which check each list of
 * free blocks as it is used; and only on hosts whose port walks stacks. */
#ifndef GB_SAMPLES
#if defined(__linux__) || defined(_WIN64) || defined(GB_PORT_FAKE)
#define GB_SAMPLES (GB_THREADS && !GB_SECURE && !GB_AUDIT && !GB_SAFE)
#else
#define GB_SAMPLES 0
#endif
#endif
/* a few of the samples can lie between guards: heap/guard.c */
#if defined(__linux__) || defined(GB_PORT_FAKE)
#define GB_GUARDS GB_SAMPLES
#else
#define GB_GUARDS 0
#endif
/* The processor compares a tag in each address with one of the block: heap/tags.c. */
#ifndef GB_TAGS
#if defined(__aarch64__) && defined(__linux__) && !defined(GB_PORT_FAKE)
#define GB_TAGS GB_SECURE
#else
#define GB_TAGS 0
#endif
#endif
/* the process can write a snapshot of itself, and ask a helper thread for a profile */
#ifndef GB_SNAPSHOTS
#if defined(__linux__) || defined(GB_PORT_FAKE)
#define GB_SNAPSHOTS GB_THREADS
#else
#define GB_SNAPSHOTS 0
#endif
#endif
/* the process can search a copy of itself for leaks: debug/leaks.c */
#ifndef GB_LEAKS
#if defined(__linux__) && defined(__LP64__) && !defined(GB_PORT_FAKE)
#define GB_LEAKS GB_THREADS
#else
#define GB_LEAKS 0
#endif
#endif
/* guards alone sample a heap in one of so many spells between ticks, if they are rare enough */
#define GB_GUARD_SPELLS 8
#define GB_GUARD_SPELLS_FROM ((size_t)1 << 20)
#define GB_GUARD_SLOTS 64 /* guarded blocks, at most: heap/guard.c */
#define GB_GUARD_MOST_BYTES ((size_t)1 << 20) /* of their memory, where OS pages are large */
#define GB_GUARD_FRAMES 24 /* the most callers that such a block keeps */
#ifdef GB_STAYS_LOADED /* glebe is a library of its own, not a part of the program */
#define GB_IN_LIBRARY 1
#else
#define GB_IN_LIBRARY 0
#endif
#define GB_WATCH_MS 20 /* between two looks at the limits by the clock */
#define GB_SAMPLE_BYTES ((size_t)512 << 10) /* default of the option profile_bytes */
#define GB_SAMPLE_FRAMES 128 /* the most callers that a sample has */
#define GB_SAMPLE_CHUNKS 128 /* of the sampler's records, each of so many bytes */
#define GB_SAMPLE_CHUNK_LOG2 17
#define GB_SAMPLE_CHUNK_BYTES ((size_t)1 << GB_SAMPLE_CHUNK_LOG2)
#define GB_SAMPLE_LATE_BYTES ((size_t)1 << 20) /* more in use at the start: sample.c */
#define GB_SAMPLE_HEADS_LOG2 12 /* of each hash table, at first */
#define GB_SAMPLE_RECENT_LOG2 7 /* stacks that are found without their frames' lists */
#define GB_LIFETIMES 18 /* classes of lifetimes: samples.h */
#define GB_LABELS_MOST 8 /* of a thread */
#define GB_LABEL_KEY_BYTES 44 /* with the 0 at the end, and so that a record has 256 bytes */
#define GB_LABEL_VALUE_BYTES 208

/* free() regularly gets blocks of C libraries with a heap of their own, and the port passes them on. 0: such a block
 * is misuse. */
#ifndef GB_FOREIGN
#ifdef _WIN32
#define GB_FOREIGN 1
#else
#define GB_FOREIGN 0
#endif
#endif

/* GB_AT_START(f): f runs when the library is loaded; GB_AT_END(f): f runs when the program ends. On Windows every C
 * library calls the functions in a section at the start. None has such a section for the end, so gb_port_start
 * registers f there. */
#ifdef _WIN32
#define GB_TLS_MODEL /* Windows has one model only */
#define GB_AT_START(f) __attribute__((section(".CRT$XCU"), used)) static void (*const f##_row)(void) = f;
#define GB_AT_END(f)
#else
#define GB_TLS_MODEL __attribute__((tls_model("initial-exec")))
#define GB_AT_START(f) __attribute__((constructor)) static void f##_at_start(void) { f(); }
#define GB_AT_END(f) __attribute__((destructor)) static void f##_at_end(void) { f(); }
#endif

/* In a package the text at exit names the commit. tools/package writes the file, one line, which no clone has:
 * #define GB_COMMIT "0123456789ab" */
#ifdef __has_include
#if __has_include("glebe_commit.h")
#include "glebe_commit.h"
#endif
#endif
#ifdef GB_COMMIT
#define GB_MADE_OF "; commit " GB_COMMIT
#else
#define GB_MADE_OF ""
#endif
#ifndef GB_COPY
#define GB_COPY "" /* names this copy in texts at exit, such as " of the crate": a process may have several */
#endif

#ifndef GB_IS_MALLOC
#define GB_IS_MALLOC 0 /* 1 in code that includes all of glebe and defines malloc by it (WebAssembly) */
#endif

#ifndef GB_STACKS
/* large objects may be stacks; the collector scans only their ends in use: stack.c (TinyGo's goroutines) */
#define GB_STACKS 0
#endif

#ifndef GB_PROBED
#define GB_PROBED() ((void)0) /* lets a test count probes of hash tables */
#endif

#ifndef GB_MARK_STACK
#define GB_MARK_STACK 512 /* room of the mark stack, in addresses */
#endif

#ifndef GB_PLACE_LOG2
#define GB_PLACE_LOG2 36 /* least address space for chunks if none is reserved */
#define GB_PLACE_MOST_LOG2 42
#endif

/* a process that may have less address space counts as limited */
#define GB_ADDRESS_PLENTY ((size_t)1 << (sizeof(size_t) == 8 ? 39 : 31))
#ifndef GB_AWAY_MOST
/* bounds on uncommitted extents between others, and on extents with moved OS pages: each is a mapping, and Linux
 * allows 65530 mappings by default */
#define GB_AWAY_MOST (GB_SECURE ? 16384 : 4096) /* the secure build guards half as many blocks */
#define GB_MOVED_MOST 1024
#endif

#define GB_SLICE_LOG2 (GB_LINEAR ? 12 : 14) /* the unit of pages and large blocks; docs/decisions/0001 says why */
#define GB_CHUNK_LOG2 (GB_LINEAR ? 19 : 21) /* unit of commit, and the size of a huge page */
#define GB_GRANULE_LOG2 16 /* unit of extents; an OS page is never larger */
#define GB_UNIT_LOG2 12 /* unit of holes; an OS page is never smaller */

#define GB_CELL_BYTES (2 * sizeof(void *)) /* collected objects begin at multiples of this */
#define GB_SLICE_BITS ((uint32_t)(GB_SLICE_BYTES / GB_CELL_BYTES)) /* a bit for each such place in a slice */
/* the shadow of the audit build has a bit for 16 bytes, that of the safe build two */
#define GB_SHADOW (GB_AUDIT || GB_SAFE)
#define GB_SHADOW_LOG2 (GB_SAFE ? 6 : 7)

#define GB_SLICE_BYTES ((size_t)1 << GB_SLICE_LOG2)
#define GB_CHUNK_BYTES ((size_t)1 << GB_CHUNK_LOG2)
#define GB_GRANULE_BYTES ((size_t)1 << GB_GRANULE_LOG2)
#define GB_UNIT_BYTES ((size_t)1 << GB_UNIT_LOG2)
#define GB_CHUNK_SLICES ((uint32_t)1 << (GB_CHUNK_LOG2 - GB_SLICE_LOG2))

#define GB_SMALL_MAX ((size_t)(GB_LINEAR ? 512 : 2048)) /* free blocks are linked through themselves; the fast path */
#define GB_OBJECT_MAX ((size_t)2048) /* larger collected objects have a run or an extent of their own */
/* the largest request that a small block serves */
#define GB_SMALL_MOST (GB_SMALL_MAX - GB_TAIL_BYTES)
/* free blocks are bits in the page's entry; in linear memory only up to the last class */
#define GB_MEDIUM_MAX (GB_LINEAR ? GB_OBJECT_MAX : (size_t)64 << 10)
/* blocks with a run of slices; larger ones have an extent */
#define GB_LARGE_MAX (GB_LINEAR ? ((size_t)1 << 31) - 1 : (size_t)1 << 20)
#define GB_LARGE_LEAST ((uint32_t)4) /* least slices of such a run: no two runs begin in the four of one record */
/* a block that has grown to this size gets an extent, since it may grow on */
#define GB_GROWN_FROM (GB_LINEAR ? SIZE_MAX : (size_t)256 << 10)

/* lists of free blocks are sorted by address in heaps with this many bytes of small pages; not in the secure build,
 * which hands blocks out in random order, and not in linear memory, where code must be short */
#define GB_SORTS (!GB_LINEAR && !GB_SECURE)
#ifndef GB_SORTS_FROM
#define GB_SORTS_FROM ((size_t)1 << 20)
#endif
#ifndef GB_WARM_BYTES
/* large and huge blocks that were freed last, and that their heap keeps for its next requests of their size */
#define GB_WARM_BYTES ((size_t)4 << 20)
#endif
#define GB_WARM_BLOCKS 8
/* When this many heaps are in use, further threads share common heaps. A thread that makes GB_COMMON_REQUESTS requests
 * within GB_COMMON_MS gets a heap of its own (docs/decisions/0037, 0097). */
#ifndef GB_FEW_HEAPS
#define GB_FEW_HEAPS 6
#endif
#define GB_COMMON_HEAPS 8
#define GB_COMMON_REQUESTS 4096
#define GB_COMMON_MS 1000
#define GB_FEW_BLOCKS 8 /* a refill takes a page's list as it is if it has this many blocks */
/* A full small page is used again when an eighth of its blocks, or this many bytes, were freed: enough for a refill to
 * pay. With a higher bound free blocks would stay hidden from requests for longer. Linear memory has no bound in bytes:
 * its pages are short, and reusing them earlier would keep them from becoming empty. docs/decisions/0036 */
#define GB_WAKE_BYTES ((size_t)(GB_LINEAR ? 0 : 2 << 10)) /* 0: no bound */
#define GB_WAKE_LEAST 2 /* blocks */
#define GB_WAKE_MOST 32
/* slices of a page of a small class in demand; for medium classes see tools/size-classes */
#define GB_BIG_PAGE_SLICES 4
#define GB_DEMAND 2 /* a class is in demand once it holds slices for this many such pages */

#define GB_REMOTE_SLOTS 8 /* pages of other heaps for which a heap collects remote frees before it sends them */
#define GB_REMOTE_BLOCKS 32 /* a slot is sent at this many blocks */
/* A thread that frees blocks of other heaps hands some of them out itself. Not in the secure build, which verifies
 * blocks against their page. */
#ifndef GB_BORROWS
#define GB_BORROWS (GB_THREADS && !GB_SECURE)
#endif
#define GB_BORROWED_CLASSES (GB_BORROWS ? GB_SMALL_CLASSES : 1)
#define GB_BORROWED_BLOCKS 64 /* at most this many of a class, and this many bytes */
#define GB_BORROWED_BYTES 8192

/* a new chunk asks for huge pages if the chunks before it have this many bytes; docs/decisions/0004 */
#define GB_HUGE_PAGES_FROM ((size_t)64 << 20)
/* huge blocks that grow by small steps ask for huge pages with this much memory in use */
#define GB_HUGE_BLOCKS_FROM ((size_t)16 << 20)

#ifndef GB_TRIM_FROM
/* with the background thread, bytes of AVAIL pages from which emptying pages are searched for holes */
#define GB_TRIM_FROM ((size_t)1 << 20)
#endif

/* Bounds on retained memory. In-use plus retained bytes may reach the largest amount ever in use, plus this share of
 * it, plus GB_KEPT_BYTES, plus a share of the large and of the huge blocks: such blocks replace each other at
 * different lengths (docs/decisions/0034). The first GB_KEPT_HUGE_FROM bytes of huge blocks allow none (0041). */
#define GB_KEPT_SHARE 16
#define GB_KEPT_BYTES ((size_t)32 << 10)
#define GB_KEPT_LARGE_SHARE 8
#define GB_KEPT_HUGE_SHARE 6
#define GB_KEPT_HUGE_FROM ((size_t)4 << 20)

#define GB_TICK_EVENTS 16 /* slow events between two looks at the clock */
#define GB_TICK_CYCLES ((uint64_t)1 << 28) /* or this much time by gb_cycles, about a tenth of a second */
#define GB_BACKGROUND_FROM ((size_t)2 << 20) /* bytes in use from which GLEBE_BACKGROUND=1 starts its thread */
#define GB_STEP_CYCLES (GB_TICK_CYCLES >> 8) /* budget of one step: 0.4 ms */
#define GB_PURGE_MS 500 /* default of the option purge_ms */

#define GB_MAX_BYTES ((size_t)PTRDIFF_MAX) /* larger requests fail, as in the standard library */
/* no host has more memory: a larger request fails at once */
#define GB_BLOCK_MAX_LINEAR (((size_t)1 << 31) - ((size_t)1 << 21))
#define GB_BLOCK_MAX_LOG2 (sizeof(size_t) == 8 ? 46 : 0) /* 0: no bound below GB_MAX_BYTES */
#define GB_BLOCK_MAX \
    (GB_LINEAR ? GB_BLOCK_MAX_LINEAR : GB_BLOCK_MAX_LOG2 ? (size_t)1 << GB_BLOCK_MAX_LOG2 : GB_MAX_BYTES)

#endif
