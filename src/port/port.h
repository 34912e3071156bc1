/* The contract with the host: everything that the core wants of an operating system. One file of src/port/ implements
 * it; src/glebe.c picks which. Nothing else in src/ knows an OS.
 *
 * All addresses and sizes are multiples of gb_port_page_bytes(). No function allocates from glebe, changes errno, or
 * ends a thread that is to be cancelled. The core calls them with its locks held or not, as it likes, so they must
 * not call back into it, except where said. */
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
/* An address near which `bytes` of address space are likely free, without taking them: for hosts that limit address
 * space. Commits there take the address space too and may find it taken. `attempt` counts from 0: another address
 * each time, or 0 if there is none. */
uintptr_t gb_port_propose(size_t bytes, unsigned attempt);
enum gb_commit { GB_COMMITTED, GB_NO_MEMORY, GB_TAKEN };
/* Makes memory usable; zero where it was not committed before. Nothing is resident yet. */
enum gb_commit gb_port_commit(uintptr_t at, size_t bytes, bool reserved);
/* Gives memory and the right to it back; the address space stays ours if it was reserved. false: the host would not
 * (a hole in a mapping makes two of it), and nothing changed. */
bool gb_port_decommit(uintptr_t at, size_t bytes, bool reserved);
/* Gives memory back; it stays committed. Lazily: when the host comes to want it, and each page reads as it did or as
 * zero, nobody knows which, until it is written to. A host may do at once what was asked for lazily, never the other
 * way round. */
enum gb_purge { GB_PURGE_REFUSED /* nothing changed */, GB_PURGE_LAZY, GB_PURGE_ZERO /* it reads as zero */ };
enum gb_purge gb_port_purge(uintptr_t at, size_t bytes, bool lazily);
/* Moves the contents of committed pages to committed, untouched ones without copying; `from` reads as zero then.
 * GB_STAYED: nothing changed. GB_PLACE_LOST: the same, but `to` is not ours any more. */
enum gb_move { GB_MOVED, GB_STAYED, GB_PLACE_LOST };
enum gb_move gb_port_move(uintptr_t from, uintptr_t to, size_t bytes);
/* Whether huge pages may serve this range. A hint. */
void gb_port_huge_pages(uintptr_t at, size_t bytes, bool wanted);
/* Touches the first byte of memory that was never touched: true if it came as quickly as a huge page should. */
bool gb_port_huge_page_quick(uintptr_t at);
/* Bytes of the range, of 16 MiB at most, that are resident; all of them where the host does not say. */
size_t gb_port_resident(uintptr_t at, size_t bytes);
/* Forbids all access, for guards. */
void gb_port_protect(uintptr_t at, size_t bytes);
/* Memory limit of the group of processes that we run in, and what it uses; false if there is none. */
bool gb_port_pressure(uint64_t *limit_bytes, uint64_t *used_bytes);

/* Where memory is linear this takes the place of all above: at least *bytes new bytes, zero, on a slice; *bytes says
 * how many in fact. 0: there is no more. They follow those of the last call, unless another caller let memory grow
 * in between. */
uintptr_t gb_port_grow(size_t *bytes);
/* Memory reaches to `end` at least: another thread of ours may have let it grow. From here on this thread can use
 * all of it. */
void gb_port_grown(uintptr_t end);

/* Where blocks of other allocators come to free() (GB_FOREIGN): the bytes of one, 0 if it is none of theirs; and
 * back to whose it is. */
size_t gb_port_foreign_bytes(const void *block);
bool gb_port_foreign_free(void *block);

/* ---- time, chance, words ---- */
uint32_t gb_port_now_ms(void); /* monotonic, coarse, wraps */
uint64_t gb_port_random(void);
const char *gb_port_environment(const char *name); /* NULL where unset, or not trusted (setuid) */
char *const *gb_port_environment_all(void); /* NULL-terminated, or NULL */
void gb_port_print(const char *text, size_t bytes); /* to stderr */
/* stderr as it is now is where gb_port_say writes later, even if the program closes it first: called once a user
 * asked for words at exit, and never else. The program's own descriptors keep their numbers, and what it starts
 * inherits nothing. */
void gb_port_keep_stderr(void);
/* To the stderr that was kept; nowhere, if no descriptor leads there any more. */
void gb_port_say(const char *text, size_t bytes);
/* Adds the text to a file that exists. False if it cannot, or where there are no files. */
bool gb_port_append(const char *path, const char *text, size_t bytes);
const char *gb_port_program(void); /* its name without a path; "" if there is none */
uint32_t gb_port_process(void); /* its number */
_Noreturn void gb_port_abort(void);

/* ---- threads ---- */
/* Sleeps while *word == expected, at most `ms` (UINT32_MAX: without limit). May return early. */
void gb_port_wait(_Atomic uint32_t *word, uint32_t expected, uint32_t ms);
void gb_port_wake(_Atomic uint32_t *word);
/* The process ends, and the system has ended all other threads wherever they were: who held a lock will not drop it. */
bool gb_port_alone(void);
/* gb_thread_exit() is called when this thread ends. The first call arms the fork handlers. May allocate from glebe. */
void gb_port_thread_arm(void);
/* Starts `run` on a thread of its own that takes no signals. May allocate from glebe. */
bool gb_port_thread_start(void (*run)(void));
/* Once, after the C library is up: fork handlers and whatever else wants libc. May allocate from glebe. */
void gb_port_start(void);

/* What the port calls in the core. The second: where GB_AT_END is none of the compiler's. */
void gb_thread_exit(void);
void gb_say_at_exit(void);
void gb_fork_prepare(void);
void gb_fork_parent(void);
void gb_fork_child(void);
/* Between the first and the last two, on the thread that forks. */
bool gb_lock_forking(void);

#pragma GCC visibility pop

#endif
