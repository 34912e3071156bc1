/* The host contract (../port.h) without an OS behind it, for unit tests, model tests and fuzzing (-DGB_PORT_FAKE).
 *
 *     fake_start
 *     | committed | not | committed | protected | ...  one piece of address space, a state for each 4 KiB of it
 *
 * Everything is deterministic. A test moves the clock, seeds the random generator and sets the environment. The port
 * keeps output for the test, and calls fail as the test plans. No call sleeps: a wait that no thread could end is
 * reported as a deadlock.
 *
 * Only the backing comes from the OS, by mmap. Memory that the core did not commit has no access rights, so touching it
 * crashes the test at that line. If the OS's pages are larger than ours, only the records protect it. On 64 bits
 * address space costs nothing, and there is as much as region.c needs at least: 2 GiB of chunks, as much of extents.
 * `memory_bytes` limits the memory.
 *
 * 1. Only uncommitted memory in the piece is committed; only committed memory is purged or moved. Protected memory can
 *    be decommitted, as committed memory can.
 * 2. Fresh memory reads as zero, and so does memory that was moved away or purged (not lazily). The target of a move
 *    must not have been written to.
 * 3. committed_bytes counts the bytes that were committed and not decommitted since.
 *
 * A breach is a mistake of the core: the port prints it and aborts, for a fuzzer to find. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake.h"

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif
#ifndef MADV_NOHUGEPAGE
#define MADV_NOHUGEPAGE MADV_NORMAL
#endif

gb_fake fake;
uintptr_t fake_start;
static bool fake_guarded; /* the OS's pages are no larger than ours: access rights guard uncommitted memory */
static uint8_t fake_states[FAKE_BYTES >> FAKE_PAGE_LOG2];
static bool fake_used[FAKE_BYTES >> FAKE_PIECE_LOG2]; /* pieces in which something was committed since the last reset */

#define FAKE_REQUIRE(condition, what) \
    do \
        if (!(condition)) { \
            fprintf(stderr, "fake port: %s (%s:%d)\n", what, __FILE__, __LINE__); \
            abort(); \
        } \
    while (0)

static void fake_access(uintptr_t at, size_t bytes, int protection)
{
    if (fake_guarded && bytes)
        FAKE_REQUIRE(mprotect((void *)at, bytes, protection) == 0, "mprotect failed");
}

/* Maps the used pieces anew, and only those: a fuzzer resets a thousand times a second. */
static void fake_forget(void)
{
    for (size_t i = 0; i < FAKE_BYTES >> FAKE_PIECE_LOG2; i++) {
        if (!fake_used[i])
            continue;
        void *at = (void *)(fake_start + (i << FAKE_PIECE_LOG2));
        void *p = mmap(at, (size_t)1 << FAKE_PIECE_LOG2, fake_guarded ? PROT_NONE : PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANON | MAP_NORESERVE | MAP_FIXED, -1, 0);
        FAKE_REQUIRE(p == at, "mmap failed");
        memset(fake_states + (i << (FAKE_PIECE_LOG2 - FAKE_PAGE_LOG2)), FAKE_NONE,
            (size_t)1 << (FAKE_PIECE_LOG2 - FAKE_PAGE_LOG2));
        fake_used[i] = false;
    }
}

void gb_fake_reset(uint64_t seed)
{
    if (!fake_start) {
        fake_guarded = sysconf(_SC_PAGESIZE) <= (long)FAKE_PAGE_BYTES;
        void *p = mmap(NULL, FAKE_BYTES + FAKE_ALIGNMENT, fake_guarded ? PROT_NONE : PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANON | MAP_NORESERVE, -1, 0);
        FAKE_REQUIRE(p != MAP_FAILED, "no address space");
        fake_start = ((uintptr_t)p + FAKE_ALIGNMENT - 1) & ~(uintptr_t)(FAKE_ALIGNMENT - 1);
    } else
        fake_forget();
    memset(&fake, 0, sizeof fake);
    fake.now_ms = 1000;
    fake.chance = seed;
    fake.page_bytes = FAKE_PAGE_BYTES;
    fake.address_bytes = SIZE_MAX;
    fake.memory_bytes = SIZE_MAX;
}

void gb_fake_fail(uint32_t calls, uint64_t at, uint64_t count)
{
    fake.fail_calls = calls;
    fake.fail_at = at;
    fake.fail_count = count;
    fake.fail_seen = 0;
    fake.failed = 0;
}

static bool fake_fails(enum gb_fake_call call)
{
    fake.calls[call]++;
    if ((fake.fail_calls >> call & 1) == 0)
        return false;
    fake.fail_seen++;
    bool fails = fake.fail_at && fake.fail_seen >= fake.fail_at && fake.fail_seen - fake.fail_at < fake.fail_count;
    fake.failed += fails;
    return fails;
}

static uint8_t *fake_state(uintptr_t at)
{
    return fake_states + ((at - fake_start) >> FAKE_PAGE_LOG2);
}

static bool fake_inside(uintptr_t at, size_t bytes)
{
    return at >= fake_start && at - fake_start <= FAKE_BYTES && bytes <= FAKE_BYTES - (at - fake_start);
}

bool gb_fake_is(uintptr_t at, size_t bytes, enum gb_fake_state state)
{
    if (!fake_inside(at, bytes))
        return false;
    for (uintptr_t p = at; p < at + bytes; p += FAKE_PAGE_BYTES)
        if (*fake_state(p) != state)
            return false;
    return true;
}

static void fake_enter(uintptr_t at, size_t bytes, enum gb_fake_state state)
{
    for (uintptr_t p = at; p < at + bytes; p += FAKE_PAGE_BYTES)
        *fake_state(p) = (uint8_t)state;
}

static void fake_whole(uintptr_t at, size_t bytes)
{
    FAKE_REQUIRE(at % fake.page_bytes == 0 && bytes % fake.page_bytes == 0 && bytes > 0, "not whole pages");
}

/* ---- memory ---- */

size_t gb_port_page_bytes(void)
{
    if (!fake_start)
        gb_fake_reset(1);
    return fake.page_bytes;
}

size_t gb_port_address_bytes(void) { return fake.address_bytes; }

uintptr_t gb_port_reserve(size_t bytes) { return fake_fails(GB_FAKE_RESERVE) || bytes > FAKE_BYTES ? 0 : fake_start; }

/* A test may ask for more than there is: commits beyond the piece fail. */
uintptr_t gb_port_propose(size_t bytes, unsigned attempt, size_t *room)
{
    *room = bytes;
    return fake_fails(GB_FAKE_PROPOSE) || attempt > 1 ? 0 : fake_start + attempt * FAKE_SECOND_PLACE;
}

enum gb_commit gb_port_commit(uintptr_t at, size_t bytes, bool reserved)
{
    fake_whole(at, bytes);
    if (fake_fails(GB_FAKE_COMMIT) || !fake_inside(at, bytes) || bytes > fake.memory_bytes
        || fake.committed_bytes > fake.memory_bytes - bytes)
        return GB_NO_MEMORY;
    if (!reserved && at < fake.taken_to && at + bytes > fake.taken_from)
        return GB_TAKEN;
    FAKE_REQUIRE(gb_fake_is(at, bytes, FAKE_NONE), "commit of memory that is committed");
    fake_enter(at, bytes, FAKE_COMMITTED);
    for (uintptr_t p = at; p < at + bytes; p = (p | (((uintptr_t)1 << FAKE_PIECE_LOG2) - 1)) + 1)
        fake_used[(p - fake_start) >> FAKE_PIECE_LOG2] = true;
    fake_access(at, bytes, PROT_READ | PROT_WRITE);
    if (fake.exact)
        madvise((void *)at, bytes, MADV_NOHUGEPAGE); /* a failure does not matter: the OS has no huge pages then */
    fake.committed_bytes += bytes;
    return GB_COMMITTED;
}

/* Clears the range. Large ranges are purged in the OS too, as otherwise tests that free much would be slow. */
static void fake_clear(uintptr_t at, size_t bytes)
{
    bool through = fake_guarded && (bytes >= (size_t)1 << 20 || fake.exact)
        && madvise((void *)at, bytes, MADV_DONTNEED) == 0;
    if (!through || (!fake.exact && *(char *)at != 0)) /* looking makes a page resident */
        memset((void *)at, 0, bytes);
}

size_t gb_fake_resident_bytes(void)
{
    static unsigned char resident[(size_t)64 << (FAKE_PIECE_LOG2 - FAKE_PAGE_LOG2)];
    size_t pages = 0, pieces;
    for (size_t i = 0; i < FAKE_BYTES >> FAKE_PIECE_LOG2; i += pieces + 1) {
        for (pieces = 0; pieces < 64 && i + pieces < FAKE_BYTES >> FAKE_PIECE_LOG2 && fake_used[i + pieces]; pieces++) {
        }
        void *at = (void *)(fake_start + (i << FAKE_PIECE_LOG2));
        if (pieces && mincore(at, pieces << FAKE_PIECE_LOG2, (void *)resident) != 0)
            return SIZE_MAX;
        for (size_t p = 0; p < pieces << (FAKE_PIECE_LOG2 - FAKE_PAGE_LOG2); p++)
            pages += resident[p] & 1;
    }
    return pages << FAKE_PAGE_LOG2;
}

/* Grows in steps of 64 KiB, as WebAssembly does. */
uintptr_t gb_port_grow(size_t *bytes)
{
    size_t step = (size_t)1 << 16, want = (*bytes + step - 1) & ~(step - 1);
    if (fake_fails(GB_FAKE_GROW))
        return 0;
    fake.grown_bytes += fake.foreign_bytes;
    fake.foreign_bytes = 0;
    uintptr_t at = fake_start + fake.grown_bytes;
    if (gb_port_commit(at, want, true) != GB_COMMITTED)
        return 0;
    fake.grown_bytes += want;
    *bytes = want;
    return at;
}

void gb_port_grown(uintptr_t end)
{
    fake.told_end = end;
}

bool gb_port_decommit(uintptr_t at, size_t bytes, bool reserved)
{
    (void)reserved;
    fake_whole(at, bytes);
    for (uintptr_t p = at; p < at + bytes; p += FAKE_PAGE_BYTES)
        FAKE_REQUIRE(fake_inside(p, 1) && *fake_state(p) != FAKE_NONE, "decommit of memory that is not committed");
    if (fake_fails(GB_FAKE_DECOMMIT))
        return false;
    fake_access(at, bytes, PROT_READ | PROT_WRITE); /* guards are decommitted too */
    fake_clear(at, bytes);
    fake_enter(at, bytes, FAKE_NONE);
    fake_access(at, bytes, PROT_NONE);
    fake.committed_bytes -= bytes;
    fake.purged_bytes += bytes;
    return true;
}

/* A lazy purge: the host takes about every other page at once, and never the rest. */
enum gb_purge gb_port_purge(uintptr_t at, size_t bytes, bool lazily)
{
    fake_whole(at, bytes);
    FAKE_REQUIRE(gb_fake_is(at, bytes, FAKE_COMMITTED), "purge of memory that is not committed");
    if (fake_fails(GB_FAKE_PURGE))
        return GB_PURGE_REFUSED;
    if (lazily && !fake.never_lazy) {
        for (uintptr_t p = at; p < at + bytes; p += fake.page_bytes)
            if (gb_port_random() & 1)
                memset((void *)p, 0, fake.page_bytes);
        fake.lazy_bytes += bytes;
        return GB_PURGE_LAZY;
    }
    fake_clear(at, bytes);
    fake.purged_bytes += bytes;
    return GB_PURGE_ZERO;
}

enum gb_move gb_port_move(uintptr_t from, uintptr_t to, size_t bytes)
{
    fake_whole(from, bytes);
    fake_whole(to, bytes);
    FAKE_REQUIRE(gb_fake_is(from, bytes, FAKE_COMMITTED) && gb_fake_is(to, bytes, FAKE_COMMITTED),
        "move of memory that is not committed");
    FAKE_REQUIRE(from + bytes <= to || to + bytes <= from, "move onto itself");
    for (uintptr_t p = to; p < to + bytes; p += FAKE_PAGE_BYTES)
        FAKE_REQUIRE(*(uint64_t *)p == 0, "move to memory that was written to");
    if (fake_fails(GB_FAKE_MOVE)) {
        if (!fake.moves_lose)
            return GB_STAYED;
        gb_port_decommit(to, bytes, true);
        return GB_PLACE_LOST;
    }
    memcpy((void *)to, (void *)from, bytes);
    fake_clear(from, bytes);
    fake.moved_bytes += bytes;
    return GB_MOVED;
}

void gb_port_huge_pages(uintptr_t at, size_t bytes, bool wanted)
{
    fake_whole(at, bytes);
    fake.huge_bytes += wanted ? bytes : 0;
}

bool gb_port_huge_page_quick(uintptr_t at)
{
    FAKE_REQUIRE(gb_fake_is(at, FAKE_PAGE_BYTES, FAKE_COMMITTED), "timing a huge page that is not committed");
    fake.huge_looks++;
    return !fake.huge_slow;
}

size_t gb_port_resident(uintptr_t at, size_t bytes)
{
    (void)at;
    return fake.sparse ? 0 : bytes;
}

void gb_port_protect(uintptr_t at, size_t bytes)
{
    fake_whole(at, bytes);
    FAKE_REQUIRE(gb_fake_is(at, bytes, FAKE_COMMITTED), "protect of memory that is not committed");
    fake_enter(at, bytes, FAKE_PROTECTED);
    fake_access(at, bytes, PROT_NONE);
    fake.protected_bytes += bytes;
}

bool gb_port_pressure(uint64_t *limit_bytes, uint64_t *used_bytes)
{
    fake.pressure_looks++;
    *limit_bytes = fake.pressure_limit;
    *used_bytes = fake.pressure_used;
    return fake.pressure_limit != 0;
}

/* ---- time, random numbers, text ---- */

uint32_t gb_port_now_ms(void) { return fake.now_ms; }

uint64_t gb_port_now_ns(void) { return (uint64_t)fake.now_ms * 1000000; }

uint64_t gb_port_random(void)
{
    uint64_t z = fake.chance += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

const char *gb_port_environment(const char *name)
{
    size_t length = strlen(name);
    for (char *const *entry = fake.environment; entry && *entry; entry++)
        if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=')
            return *entry + length + 1;
    return NULL;
}

char *const *gb_port_environment_all(void) { return fake.environment; }

void gb_port_print(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes && fake.printed_bytes + 1 < sizeof fake.printed; i++)
        fake.printed[fake.printed_bytes++] = text[i];
    fake.printed[fake.printed_bytes] = 0;
}

void gb_port_keep_stderr(void) { fake.stderr_kept = true; }

void gb_port_say(const char *text, size_t bytes)
{
    FAKE_REQUIRE(fake.stderr_kept, "text for a stderr that was not kept");
    gb_port_print(text, bytes);
}

/* Address space of its own: it is not of the heap's. */
uintptr_t gb_port_guards(size_t bytes)
{
    static void *mapped;
    static size_t mapped_bytes;
    if (mapped)
        munmap(mapped, mapped_bytes);
    mapped_bytes = bytes;
    mapped = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANON | MAP_NORESERVE, -1, 0);
    FAKE_REQUIRE(mapped != MAP_FAILED, "no address space");
    return (uintptr_t)mapped;
}

bool gb_port_guard(uintptr_t at, size_t bytes, bool accessible)
{
    if (fake.guards_fail)
        return false;
    if (accessible)
        return mprotect((void *)at, bytes, PROT_READ | PROT_WRITE) == 0;
    return mmap((void *)at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANON | MAP_NORESERVE | MAP_FIXED, -1, 0) == (void *)at;
}

bool gb_port_faults(gb_port_fault *ours)
{
    fake.fault = ours;
    return true;
}

void gb_port_stack_start(void) {}
void gb_port_stack_often(void) {}
void gb_port_stack_forked(void) {}

uint32_t gb_port_stack(uintptr_t *callers, uint32_t most)
{
    uint32_t count = fake.stack_length < most ? fake.stack_length : most;
    if (count)
        memcpy(callers, fake.stack, count * sizeof *callers);
    return count;
}

void gb_port_modules(void (*each)(void *context, const gb_module *module), void *context)
{
    static const uint8_t id[] = {0xab, 0x0c};
    each(context, &(gb_module){0x1000, 0x9000, 0x800, "/fake/program", id, sizeof id});
    each(context, &(gb_module){0xa000, 0xb000, 0, "/fake/lib rary", NULL, 0});
}

void gb_port_sampled(const void *block, size_t bytes, uint64_t weight)
{
    (void)block;
    fake.sampled_bytes += bytes;
    fake.sampled_weight += weight;
    fake.sampled++;
}

void gb_port_sample_freed(const void *block)
{
    (void)block;
    fake.sampled--;
}

void gb_port_modules_seen(void (*each)(void *context, const gb_module *module), void *context)
{
    gb_port_modules(each, context);
}

bool gb_port_limit(unsigned which, uint64_t *limit_bytes, uint64_t *used_bytes)
{
    *limit_bytes = fake.limits[which].limit;
    *used_bytes = fake.limits[which].used;
    return *limit_bytes != 0;
}

void gb_port_describe(const gb_port_reader *reader)
{
    reader->line(reader->context, "status", "VmRSS: 4 kB");
    reader->line(reader->context, "map", "1000-2000 rw-p 00000000 00:00 0");
    reader->pages(reader->context, 0x1000, 0x2000, 'r');
}

size_t gb_port_absolute(const char *path, char *out, size_t bytes)
{
    size_t length = strlen(path);
    if (length >= bytes)
        return 0;
    memcpy(out, path, length + 1);
    return length;
}

int gb_port_create(const char *path, bool anew, int *error)
{
    (void)path, (void)anew;
    fake.profile_bytes = 0;
    *error = 0;
    return 3;
}

int gb_port_put(int file, const char *text, size_t bytes)
{
    FAKE_REQUIRE(file == 3, "text for a file that was not created");
    if (fake.profile_error)
        return fake.profile_error;
    if (fake.profile) {
        FAKE_REQUIRE(fake.profile_bytes + bytes < fake.profile_room, "no room for the profile");
        memcpy(fake.profile + fake.profile_bytes, text, bytes);
        fake.profile_bytes += bytes;
        fake.profile[fake.profile_bytes] = 0;
    }
    return 0;
}

int gb_port_finish(int file, const char *from, const char *to)
{
    FAKE_REQUIRE(file == 3 && from, "a file that was not created is finished");
    fake.profiles += to != NULL;
    return 0;
}

bool gb_port_append(const char *path, const char *text, size_t bytes)
{
    if (!fake.file || strcmp(path, fake.file) != 0)
        return false;
    gb_port_print(text, bytes);
    return true;
}

const char *gb_port_program(void) { return fake.program ? fake.program : ""; }

uint32_t gb_port_process(void) { return 4711; }

bool gb_port_malloc_elsewhere(void) { return fake.malloc_elsewhere; }

void gb_port_stop_for(uint32_t parent) { (void)parent; }

_Noreturn void gb_port_abort(void)
{
    if (fake.on_abort)
        longjmp(*fake.on_abort, 1);
    fputs(fake.printed, stderr);
    abort();
}

/* ---- threads ---- */

void gb_port_wait(_Atomic uint32_t *word, uint32_t expected, uint32_t ms)
{
    fake.waits++;
    if (atomic_load(word) != expected)
        return;
    if (fake.on_wait)
        fake.on_wait(word, expected, ms);
    else {
        FAKE_REQUIRE(ms != UINT32_MAX, "deadlock: no thread ends this wait");
        fake.now_ms += ms;
    }
}

void gb_port_wake(_Atomic uint32_t *word)
{
    (void)word;
    fake.wakes++;
}


bool gb_port_alone(void) { return fake.alone; }

size_t gb_port_foreign_bytes(const void *block) { return block == fake.theirs ? fake.theirs_bytes : 0; }

bool gb_port_foreign_free(void *block)
{
    bool known = block == fake.theirs;
    if (known)
        fake.theirs = NULL;
    return known;
}

void gb_port_thread_arm(void) { fake.armed++; }

bool gb_port_thread_start(void (*run)(void))
{
    if (fake_fails(GB_FAKE_THREAD_START))
        return false;
    fake.thread = run;
    return true;
}

void gb_port_start(void) {}
