/* The contract with the host: everything that the core uses of an operating system. One file of src/port/ implements
 * it, and src/glebe.c picks that file. No other code in src/ calls the OS.
 *
 * All addresses and sizes are multiples of gb_port_page_bytes(). No function allocates from glebe, changes errno, or
 * acts on a pending cancellation of its thread. The core may hold its locks when it calls, so the functions must not
 * call back into it, except where stated. */
#ifndef GB_PORT_H
#define GB_PORT_H

#include "../base/bits.h"

#pragma GCC visibility push(hidden)

/* ---- memory ---- */
size_t gb_port_page_bytes(void);
/* The largest piece of address space worth asking for: SIZE_MAX, or less where it is limited or costs something. */
size_t gb_port_address_bytes(void);
/* Address space without memory, aligned to a chunk; 0 if there is none of that size. */
uintptr_t gb_port_reserve(size_t bytes);
/* Returns an address from which `bytes` of address space are likely free, or 0 if there is none. Takes nothing: this is
 * for hosts where address space costs something. A commit there takes the address space too, and may find it taken.
 * `attempt` counts from 0; each attempt selects another address. Sets *room: of so many bytes from that address, any
 * part serves as well, so that the region's place can be random; `bytes` where places must stay the same. */
uintptr_t gb_port_propose(size_t bytes, unsigned attempt, size_t *room);
enum gb_commit { GB_COMMITTED, GB_NO_MEMORY, GB_TAKEN };
/* Makes memory usable, and zero if it was not committed before. The memory is not resident yet. */
enum gb_commit gb_port_commit(uintptr_t at, size_t bytes, bool reserved);
/* Returns memory and the right to it to the OS; the address space stays ours if it was reserved. Returns false if the
 * host refused (a hole would split a mapping in two); then nothing changed. */
bool gb_port_decommit(uintptr_t at, size_t bytes, bool reserved);
/* Purges memory; it stays committed. Lazily: the OS takes the pages when it needs them. Until the program writes to
 * such a page, the page reads as before or as zero, and glebe cannot tell which. A host may purge at once if asked to
 * purge lazily, but never the reverse. */
enum gb_purge { GB_PURGE_REFUSED /* nothing changed */, GB_PURGE_LAZY, GB_PURGE_ZERO /* the memory reads as zero */ };
enum gb_purge gb_port_purge(uintptr_t at, size_t bytes, bool lazily);
/* Moves the contents of committed OS pages to committed, untouched ones without copying; `from` reads as zero then.
 * GB_STAYED: nothing changed. GB_PLACE_LOST: nothing moved, and `to` is not ours any more. */
enum gb_move { GB_MOVED, GB_STAYED, GB_PLACE_LOST };
enum gb_move gb_port_move(uintptr_t from, uintptr_t to, size_t bytes);
/* Advises whether huge pages may serve this range. A hint. */
void gb_port_huge_pages(uintptr_t at, size_t bytes, bool wanted);
/* Touches the first byte of memory that was never touched. True if that took no longer than a huge page should. */
bool gb_port_huge_page_quick(uintptr_t at);
/* Resident bytes of the range, which has at most 16 MiB; all of them if the host does not say. */
size_t gb_port_resident(uintptr_t at, size_t bytes);
/* Forbids all access, for guards. */
void gb_port_protect(uintptr_t at, size_t bytes);
/* Memory limit of the group of processes that this one belongs to, and its use; false if there is no limit. */
bool gb_port_pressure(uint64_t *limit_bytes, uint64_t *used_bytes);

/* Replaces all functions above where memory is linear. Returns at least *bytes new bytes, zero and aligned to a slice,
 * and sets *bytes to their number. 0: there is no more memory. The bytes follow those of the last call, unless other
 * code grew memory in between. */
uintptr_t gb_port_grow(size_t *bytes);
/* Called if another thread of glebe may have grown memory, to `end` at least. Afterwards the calling thread can use all
 * of it. */
void gb_port_grown(uintptr_t end);

/* For hosts on which free() gets blocks of other allocators (GB_FOREIGN). Returns the bytes of such a block; 0 if no
 * other allocator has it. */
size_t gb_port_foreign_bytes(const void *block);
/* Frees such a block by its allocator. Returns false if no other allocator has it. */
bool gb_port_foreign_free(void *block);

/* ---- stacks, for the profiler (GB_SAMPLES) ---- */
/* Finds what gb_port_stack needs. May allocate from glebe. Called at the start of a profile. */
void gb_port_stack_start(void);
/* Prepares for many walks: their tables take less memory. Called after gb_port_stack_start, without locks. */
void gb_port_stack_often(void);
/* Called in the child of a fork. */
void gb_port_stack_forked(void);
/* Writes the return addresses of this function's callers, the innermost first, and returns their number. Takes no lock
 * of glebe and allocates nothing. */
uint32_t gb_port_stack(uintptr_t *callers, uint32_t most);
/* ---- guarded blocks (GB_SAMPLES) ---- */
/* Returns address space of its own, without access; 0 if there is none. It is never given back. */
uintptr_t gb_port_guards(size_t bytes);
/* Makes a part of it accessible, or takes the access and the memory. Memory that was not accessible is zero then. */
bool gb_port_guard(uintptr_t at, size_t bytes, bool accessible);
/* Has `ours` called first for each fault of the process: with its address, the address of the code, and the access
 * (read, write or access; GB_TAG_FAULT, if the address had not the memory's tag). Where it returns true the access is
 * repeated; else the program's own handler acts, or the process ends. Called again it looks whether the program
 * installed a handler meanwhile, and comes before that one. One thread at a time calls it. Returns false if the host
 * cannot. */
typedef bool gb_port_fault(uintptr_t address, uintptr_t code, const char *access);
bool gb_port_faults(gb_port_fault *ours);
#define GB_TAG_FAULT "access with a wrong tag"
/* ---- memory tags (GB_TAGS) ---- */
/* Has the processor compare tags in this thread and those that it starts, or no more. Returns false if it cannot, or
 * other threads run already. */
bool gb_port_tags(bool compared);

/* ---- loaded code (GB_SAMPLES, GB_SNAPSHOTS) ---- */
/* A piece of code of the program, or of a library. */
typedef struct gb_module {
    uintptr_t start, end;
    uintptr_t offset; /* of `start` in the file */
    const char *path;
    const uint8_t *build_id;
    size_t build_id_bytes; /* 0: the file has none */
} gb_module;
/* Calls `each` for every piece of code that is loaded. The caller holds no lock of glebe: the loader may allocate. */
void gb_port_modules(void (*each)(void *context, const gb_module *module), void *context);
/* Creates a file, or empties it; with `anew` fails if it exists. Returns its descriptor, or -1 and the error. */
int gb_port_create(const char *path, bool anew, int *error);
/* Writes all of the text. Returns 0, or an error: never raises SIGXFSZ or SIGPIPE. */
int gb_port_put(int file, const char *text, size_t bytes);
/* Closes the file, and gives it its final name `to`; NULL: removes it. Returns 0 or an error. */
int gb_port_finish(int file, const char *from, const char *to);

/* ---- samples (GB_SAMPLES) ---- */
/* Tell a tracer of the system that a sampled block was allocated, and that one is freed: its address, its bytes, and
 * how many bytes it stands for. They cost nothing without a tracer. */
void gb_port_sampled(const void *block, size_t bytes, uint64_t weight);
void gb_port_sample_freed(const void *block);
/* The same clock as gb_port_now_ms, finer. */
uint64_t gb_port_now_ns(void);

/* ---- the process itself, for snapshots (GB_SNAPSHOTS) ----
 * One thread at a time calls the second and the third. They take no lock, neither of glebe nor of the loader. */
/* The process's limit on its address space (0) or on its data (1), and how much of it is used; false without one. */
bool gb_port_limit(unsigned which, uint64_t *limit_bytes, uint64_t *used_bytes);
/* Like gb_port_modules. */
void gb_port_modules_seen(void (*each)(void *context, const gb_module *module), void *context);
/* Describes the process's memory: lines of its sums (key "status"), a line for each mapping (key "map"), each in the
 * system's own words, and after it its pages: stretches [start, end) of one state, which is r resident, f of a file, d
 * shared after a fork or the page of zeros, s in swap. */
typedef struct gb_port_reader {
    void (*line)(void *context, const char *key, const char *line);
    void (*pages)(void *context, uintptr_t start, uintptr_t end, char state);
    void *context;
} gb_port_reader;
void gb_port_describe(const gb_port_reader *reader);
/* The absolute path of a path. Returns its length; 0 if that is not below `bytes`, or unknown. */
size_t gb_port_absolute(const char *path, char *out, size_t bytes);

/* ---- the world: all threads and all memory of the process, for the safe build (GB_SAFE), and in a copy ---- */
/* Stops all other threads, wherever they are. Returns false, and stops none, if one of them does not stop soon. Until
 * gb_port_world_start the caller takes no lock and calls no function of the C library. */
bool gb_port_world_stop(void);
void gb_port_world_start(void);
/* Calls `scan` for each piece of memory that may hold addresses: data, stacks with the registers of their threads, and
 * mappings. Leaves out memory that was never touched, the contents of files, and memory that is shared with other
 * processes. Returns false if not all memory could be found. The world is stopped. */
bool gb_port_world_memory(void (*scan)(void *context, uintptr_t from, uintptr_t to), void *context);

/* ---- a copy of the process, for the search for leaks (GB_LEAKS) ---- */
typedef struct gb_copied {
    int file; /* what the copy wrote */
    uint32_t threads; /* of the process */
    uint64_t stopped_us; /* how long they were stopped */
} gb_copied;
/* Runs in the copy. It has all memory as it was at one moment, and this thread alone. gb_port_world_memory finds the
 * roots there: it leaves out stacks of ended threads and what is below `frame`, and has shared memory. */
typedef void gb_copy_work(void *context, int file);
/* Copies the process while all other threads are stopped, and waits until the copy has ended. Returns 0 or an error:
 * EAGAIN if a thread did not stop. The caller holds the locks of whatever the copy reads; `frame` is on its stack. */
int gb_port_copy(const void *frame, gb_copy_work *work, void *context, gb_copied *out);
/* Waits until each thread that was stopped then has run for a while, or sleeps; a second at most. So none is still
 * where it was stopped in its work. */
void gb_port_copy_wait(void);
/* Reads the next bytes of what the copy wrote. Returns false if there are not so many. */
bool gb_port_copy_read(const gb_copied *copied, void *to, size_t bytes);
void gb_port_copy_end(gb_copied *copied);

/* ---- time, random numbers, text ---- */
uint32_t gb_port_now_ms(void); /* monotonic, coarse, wraps */
uint64_t gb_port_random(void);
const char *gb_port_environment(const char *name); /* NULL if unset, or not trusted (setuid) */
char *const *gb_port_environment_all(void); /* NULL-terminated, or NULL */
void gb_port_print(const char *text, size_t bytes); /* to stderr; raises no SIGXFSZ or SIGPIPE on Linux */
/* Keeps stderr as it is now for gb_port_say, even if the program closes it. Called only once a user asked for text at
 * exit. The program's own descriptors keep their numbers, and its child programs inherit nothing. */
void gb_port_keep_stderr(void);
/* Writes to the stderr that was kept; drops the text if no descriptor refers to it any more. */
void gb_port_say(const char *text, size_t bytes);
/* Appends the text to an existing file, on a new line if the file's last line was cut. False if that fails, or the host
 * is not Linux. Raises no signals. */
bool gb_port_append(const char *path, const char *text, size_t bytes);
const char *gb_port_program(void); /* the program's name without a path; "" if there is none */
uint32_t gb_port_process(void); /* the process's number */
/* True if the program's malloc is known to be in another object, executable or library, than this code. Called at
 * exit. */
bool gb_port_malloc_elsewhere(void);
/* Stops this process until `parent`, its parent, continues it. Does nothing if that is not its parent. */
void gb_port_stop_for(uint32_t parent);
_Noreturn void gb_port_abort(void);

/* ---- threads ---- */
/* Sleeps while *word == expected, at most `ms` (UINT32_MAX: no limit). May return early. */
void gb_port_wait(_Atomic uint32_t *word, uint32_t expected, uint32_t ms);
void gb_port_wake(_Atomic uint32_t *word);
/* True if the process is ending, and the system has ended all other threads wherever they were: a lock that one of them
 * held is never dropped. */
bool gb_port_alone(void);
/* Has gb_thread_exit() called when this thread ends. The first call arms the fork handlers. May allocate from glebe. */
void gb_port_thread_arm(void);
/* Starts `run` on a new thread that takes no signals. May allocate from glebe. */
bool gb_port_thread_start(void (*run)(void));
/* Called once, after the C library is up: installs fork handlers and other users of libc. May allocate from glebe. */
void gb_port_start(void);

/* Functions of the core that the port calls. It calls gb_say_at_exit only if the compiler has no GB_AT_END. */
void gb_thread_exit(void);
void gb_say_at_exit(void);
void gb_fork_prepare(void);
void gb_fork_parent(void);
void gb_fork_child(void);
/* True between gb_fork_prepare and gb_fork_parent or gb_fork_child, on the thread that forks. */
bool gb_lock_forking(void);

#pragma GCC visibility pop

#endif
