/* The host of the subject: a port without an operating system, locks that the scheduler knows, and the snapshot from
 * which every execution starts.
 *
 * Memory is one mapping, always at the same address. Restoring it copies what may have changed: the region's own
 * structure, the entries of the first chunk, some heaps, and the slices in use now or in the snapshot. */
#define _GNU_SOURCE
#include "host.h"

#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { HEAPS = 8, ONE_CHUNK = GB_CHUNK_SLICES };

world the_world;

static char *memory;
static size_t memory_bytes;

static struct {
    gb_region region;
    struct glebe_live live;
    world world;
    gb_page table[ONE_CHUNK], large[ONE_CHUNK / GB_LARGE_LEAST], *heads[ONE_CHUNK];
    gb_chunk chunk;
    char heaps[HEAPS * GB_HEAP_STRIDE];
    gb_heap_bits heap_bits;
    char slices[ONE_CHUNK][GB_SLICE_BYTES];
} saved;

/* ---- thread-local variables: the whole block of them ---- */

static char *locals, locals_new[LOCALS];
static size_t locals_bytes;

static int locals_find(struct dl_phdr_info *object, size_t bytes, void *unused)
{
    (void)bytes, (void)unused;
    for (int i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_TLS) {
            locals = object->dlpi_tls_data;
            locals_bytes = object->dlpi_phdr[i].p_memsz;
        }
    return 1; /* the first is the program itself */
}

static void locals_start(void)
{
    if (locals)
        return;
    dl_iterate_phdr(locals_find, NULL);
    uintptr_t self = (uintptr_t)&gb_self - (uintptr_t)locals;
    if (!locals || locals_bytes > LOCALS || self >= locals_bytes)
        abort();
    memcpy(locals_new, locals, locals_bytes);
}

void host_leave(uint32_t thread) { memcpy(the_world.locals[thread], locals, locals_bytes); }
void host_enter(uint32_t thread) { memcpy(locals, the_world.locals[thread], locals_bytes); }
void host_become_new(void) { memcpy(locals, locals_new, locals_bytes); }

void host_become(uint32_t from, uint32_t to)
{
    host_leave(from);
    host_enter(to);
}

/* ---- snapshot ---- */

void host_start(void)
{
    static gb_region region;
    static struct glebe_live live;
    if (!memory) {
        region = gb_the;
        live = glebe_live;
        memory_bytes = (size_t)6 << 30;
        memory = mmap((void *)(0x2000ull << 32), memory_bytes, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED)
            abort();
    }
    madvise(memory, memory_bytes, MADV_DONTNEED);
    gb_the = region;
    glebe_live = live;
    memset(&the_world, 0, sizeof the_world);
    locals_start();
    host_become_new();
    for (uint32_t i = 0; i <= IL_THREADS; i++)
        host_leave(i);
    hooks_reset();
}

void host_save(void)
{
    host_become_new();
    saved.region = gb_the;
    saved.live = glebe_live;
    saved.world = the_world;
    if (!gb_the.ready)
        return;
    IL_CHECK(gb_the.arena.chunks <= 1, "host.c: the setup needs one chunk at most");
    IL_CHECK(gb_the.records.made < HEAPS, "host.c: too many heaps");
    memcpy(saved.table, gb_the.table, sizeof saved.table);
    memcpy(saved.large, gb_the.large, sizeof saved.large);
    memcpy(saved.heads, gb_the.heads, sizeof saved.heads);
    saved.chunk = gb_the.chunk_table[0];
    memcpy(saved.heaps, gb_the.heaps, sizeof saved.heaps);
    saved.heap_bits = gb_the.heap_bits[0];
    for (uint32_t i = 0; i < ONE_CHUNK; i++)
        if (gb_set_has(saved.chunk.dirty, i))
            memcpy(saved.slices[i], (void *)gb_slice_start(i), GB_SLICE_BYTES);
}

void host_restore(void)
{
    for (uint32_t i = 0; i < ONE_CHUNK && saved.region.ready; i++) {
        if (gb_set_has(saved.chunk.dirty, i))
            memcpy((void *)gb_slice_start(i), saved.slices[i], GB_SLICE_BYTES);
        else if (gb_set_has(gb_the.chunk_table[0].dirty, i))
            memset((void *)gb_slice_start(i), 0, GB_SLICE_BYTES);
    }
    gb_the = saved.region;
    glebe_live = saved.live;
    the_world = saved.world;
    if (!gb_the.ready)
        return;
    memcpy(gb_the.table, saved.table, sizeof saved.table);
    memcpy(gb_the.large, saved.large, sizeof saved.large);
    memcpy(gb_the.heads, saved.heads, sizeof saved.heads);
    gb_the.chunk_table[0] = saved.chunk;
    memcpy(gb_the.heaps, saved.heaps, sizeof saved.heaps);
    gb_the.heap_bits[0] = saved.heap_bits;
}

static uint64_t hashed(uint64_t hash, const void *p, size_t bytes)
{
    const uint64_t *words = p;
    for (size_t i = 0; i < bytes / 8; i++)
        hash = (hash ^ words[i]) * 0x100000001b3u;
    return hash ^ hash >> 29;
}

uint64_t host_state(void)
{
    uint64_t hash = hashed(14695981039346656037u, &the_world.held, sizeof the_world - offsetof(world, held));
    hash = hashed(hash, &gb_the, sizeof gb_the);
    if (!gb_the.ready)
        return hash;
    hash = hashed(hash, gb_the.table, sizeof saved.table);
    hash = hashed(hash, gb_the.large, sizeof saved.large);
    hash = hashed(hash, gb_the.heads, sizeof saved.heads);
    hash = hashed(hash, gb_the.chunk_table, sizeof saved.chunk);
    hash = hashed(hash, gb_the.heaps, sizeof saved.heaps);
    hash = hashed(hash, gb_the.heap_bits, sizeof saved.heap_bits);
    for (uint32_t i = 0; i < ONE_CHUNK; i++)
        if (gb_set_has(gb_the.chunk_table[0].dirty, i))
            hash = hashed(hash, (void *)gb_slice_start(i), GB_SLICE_BYTES);
    return hash;
}

/* ---- locks: as in lock.c, all are taken for the thread that forks ---- */

#define PC __builtin_return_address(0)

bool host_lock_held(const volatile void *object)
{
    return atomic_load_explicit(&((gb_lock *)(uintptr_t)object)->word, memory_order_relaxed) != 0;
}

static void lock_set(gb_lock *lock, uint32_t value) { atomic_store_explicit(&lock->word, value, memory_order_relaxed); }

void gb_lock_take(gb_lock *lock)
{
    if (gb_lock_forking())
        return;
    if (il_active)
        il_before(lock, IL_TAKE);
    IL_CHECK(!host_lock_held(lock), "a lock is taken twice");
    lock_set(lock, 1);
    if (il_active)
        il_after(lock, IL_TAKE, IL_ACQUIRE, PC);
}

bool gb_lock_try(gb_lock *lock)
{
    if (gb_lock_forking())
        return true;
    if (il_active)
        il_before(lock, IL_TRY);
    bool taken = !host_lock_held(lock);
    if (taken)
        lock_set(lock, 1);
    if (il_active)
        il_after(lock, IL_TRY, taken ? IL_ACQUIRE : IL_RELAXED, PC);
    return taken;
}

void gb_lock_drop(gb_lock *lock)
{
    if (gb_lock_forking())
        return;
    if (il_active)
        il_before(lock, IL_DROP);
    IL_CHECK(host_lock_held(lock), "a lock is dropped that no thread holds");
    lock_set(lock, 0);
    if (il_active)
        il_after(lock, IL_DROP, IL_RELEASE, PC);
}

void gb_port_wait(_Atomic uint32_t *word, uint32_t expected, uint32_t ms)
{
    IL_CHECK(il_active, "a wait outside of a thread");
    if (ms != UINT32_MAX) { /* a timeout: time passes, and no thread wakes this one */
        the_world.now_ms += ms;
        return;
    }
    il_before(word, IL_WAIT);
    bool sleeps = atomic_load_explicit(word, memory_order_relaxed) == expected;
    if (sleeps)
        il_block(word);
    il_after(word, IL_WAIT, IL_RELAXED, PC);
    if (sleeps) {
        il_before(word, IL_RESUME);
        il_after(word, IL_RESUME, IL_RELAXED, PC);
    }
}

void gb_port_wake(_Atomic uint32_t *word)
{
    if (!il_active)
        return;
    il_before(word, IL_WAKE);
    il_unblock(word);
    il_after(word, IL_WAKE, IL_RELAXED, PC);
}

/* ---- accesses of the cases' own ---- */

void host_touch(const volatile void *address, size_t bytes, bool write)
{
    if (il_active)
        races_access(il_thread(), (uintptr_t)address, bytes, write, false, PC);
}

uint64_t host_acquire(_Atomic uint64_t *object)
{
    if (il_active)
        il_before(object, IL_READ);
    uint64_t value = *object;
    if (il_active)
        il_after(object, IL_READ, IL_ACQUIRE, PC);
    return value;
}

void host_release(_Atomic uint64_t *object, uint64_t value)
{
    if (il_active)
        il_before(object, IL_WRITE);
    *object = value;
    if (il_active)
        il_after(object, IL_WRITE, IL_RELEASE, PC);
}

void *host_memset(void *p, int value, size_t bytes);
void *host_memset(void *p, int value, size_t bytes)
{
    if (bytes <= 4096)
        host_touch(p, bytes, true);
    return memset(p, value, bytes);
}

/* ---- the port ---- */

size_t gb_port_page_bytes(void) { return 4096; }
size_t gb_port_address_bytes(void) { return SIZE_MAX; }
uintptr_t gb_port_reserve(size_t bytes) { return bytes <= memory_bytes ? (uintptr_t)memory : 0; }
uintptr_t gb_port_propose(size_t bytes, unsigned attempt, size_t *room)
{
    *room = bytes;
    return attempt ? 0 : gb_port_reserve(bytes);
}
enum gb_commit gb_port_commit(uintptr_t at, size_t bytes, bool reserved)
{
    (void)at, (void)bytes, (void)reserved;
    return GB_COMMITTED;
}
bool gb_port_decommit(uintptr_t at, size_t bytes, bool reserved) { return (void)at, (void)bytes, (void)reserved, true; }

/* For races, the first word of each OS page represents the page. */
enum gb_purge gb_port_purge(uintptr_t at, size_t bytes, bool lazily)
{
    (void)lazily;
    if (bytes > GB_CHUNK_BYTES / 2)
        return GB_PURGE_REFUSED;
    for (uintptr_t page = at; page < at + bytes; page += 4096)
        host_touch((void *)page, 8, true);
    memset((void *)at, 0, bytes);
    return GB_PURGE_ZERO;
}

enum gb_move gb_port_move(uintptr_t from, uintptr_t to, size_t bytes)
{
    return (void)from, (void)to, (void)bytes, GB_STAYED;
}
void gb_port_huge_pages(uintptr_t at, size_t bytes, bool wanted) { (void)at, (void)bytes, (void)wanted; }
bool gb_port_huge_page_quick(uintptr_t at) { return at != 0; }
size_t gb_port_resident(uintptr_t at, size_t bytes) { return (void)at, bytes; }
void gb_port_protect(uintptr_t at, size_t bytes) { (void)at, (void)bytes; }
bool gb_port_pressure(uint64_t *limit, uint64_t *used) { return (void)limit, (void)used, false; }
uint32_t gb_port_now_ms(void) { return the_world.now_ms; }
uint64_t gb_port_random(void) { return 4; }
const char *gb_port_environment(const char *name) { return (void)name, NULL; }
char *const *gb_port_environment_all(void) { return NULL; }
bool gb_port_alone(void) { return false; }
void gb_port_thread_arm(void) {}
static void (*started)(void);
bool gb_port_thread_start(void (*run)(void)) { return started = run, true; }
void host_started(void) { started(); }
void gb_port_start(void) {}

static char printed[400];
void gb_port_print(const char *text, size_t bytes)
{
    bytes = bytes < sizeof printed - 1 ? bytes : sizeof printed - 1;
    memcpy(printed, text, bytes);
    printed[bytes] = 0;
}

void gb_port_keep_stderr(void) {}
void gb_port_say(const char *text, size_t bytes) { gb_port_print(text, bytes); }
uintptr_t gb_port_guards(size_t bytes) { return (void)bytes, 0; }
bool gb_port_guard(uintptr_t at, size_t bytes, bool opens) { return (void)at, (void)bytes, (void)opens, false; }
bool gb_port_faults(gb_port_fault *ours) { return (void)ours, false; }
void gb_port_stack_start(void) {}
void gb_port_stack_often(void) {}
uint32_t gb_port_stack(uintptr_t *callers, uint32_t most) { return (void)callers, (void)most, 0; }
void gb_port_modules(void (*each)(void *context, const gb_module *module), void *context)
{
    (void)each, (void)context;
}
int gb_port_create(const char *path, bool anew, int *error) { return (void)path, (void)anew, *error = ENOENT, -1; }
int gb_port_put(int file, const char *text, size_t bytes) { return (void)file, (void)text, (void)bytes, EIO; }
int gb_port_finish(int file, const char *from, const char *to) { return (void)file, (void)from, (void)to, EIO; }
bool gb_port_append(const char *path, const char *text, size_t bytes)
{
    return (void)path, (void)text, (void)bytes, false;
}
const char *gb_port_program(void) { return ""; }
uint32_t gb_port_process(void) { return 1; }
void gb_port_stop_for(uint32_t parent) { (void)parent; }
bool gb_port_malloc_elsewhere(void) { return false; }

_Noreturn void gb_port_abort(void) { il_fail("abort: %s", printed); }

/* ---- names ---- */

bool host_is_private(uintptr_t address)
{
    uintptr_t here = (uintptr_t)&address; /* an address on the stack of the calling thread */
    return address - (uintptr_t)locals < locals_bytes || address - (here - (256 << 10)) < (512 << 10);
}

#define FIELD(type, field) {#field, offsetof(type, field), sizeof((type *)0)->field}
static const struct field {
    const char *name;
    size_t offset, bytes;
} page_fields[] = {FIELD(gb_page, owner), FIELD(gb_page, free), FIELD(gb_page, xfree), FIELD(gb_page, left),
    FIELD(gb_page, back_bytes), FIELD(gb_page, heap), FIELD(gb_page, next), FIELD(gb_page, prev),
    FIELD(gb_page, inbox_next), FIELD(gb_page, cap), FIELD(gb_page, bump), FIELD(gb_page, holes),
    FIELD(gb_page, punched), FIELD(gb_page, slices), FIELD(gb_page, cls), FIELD(gb_page, kind),
    FIELD(gb_page, state), FIELD(gb_page, mark)},
  medium_fields[] = {FIELD(gb_page, bits), FIELD(gb_page, dirty), FIELD(gb_page, idle), FIELD(gb_page, notify)},
  heap_fields[] = {FIELD(glebe_heap, front), FIELD(glebe_heap, current), FIELD(glebe_heap, avail),
      FIELD(glebe_heap, full), FIELD(glebe_heap, spare), FIELD(glebe_heap, bytes), FIELD(glebe_heap, tick),
      FIELD(glebe_heap, kind), FIELD(glebe_heap, next), FIELD(glebe_heap, inbox), FIELD(glebe_heap, remote)},
  region_fields[] = {FIELD(gb_region, slices), FIELD(gb_region, lock), FIELD(gb_region, abandoned.lock),
      FIELD(gb_region, abandoned.first), FIELD(gb_region, now_ms), FIELD(gb_region, kept.queue.count),
      FIELD(gb_region, huge.idle), FIELD(gb_region, common),
      FIELD(gb_region, records.unused_from), FIELD(gb_region, kept.queue), FIELD(gb_region, background_state)},
  chunk_fields[] = {FIELD(gb_chunk, touched_ms), FIELD(gb_chunk, queued), FIELD(gb_chunk, free),
      FIELD(gb_chunk, dirty)};

static bool field_name(char *out, size_t bytes, const char *what, size_t number, size_t offset,
    const struct field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (offset - fields[i].offset < fields[i].bytes) {
            snprintf(out, bytes, "%s%zu.%s", what, number, fields[i].name);
            return true;
        }
    snprintf(out, bytes, "%s%zu+%zu", what, number, offset);
    return false;
}
#define COUNT(array) (sizeof(array) / sizeof *(array))

void host_name(char *out, size_t bytes, const volatile void *address)
{
    uintptr_t a = (uintptr_t)address, at;
    if ((at = a - (uintptr_t)gb_the.table) < ONE_CHUNK * sizeof(gb_page)) {
        const gb_page *page = gb_the.table + at / sizeof(gb_page);
        bool medium = page->kind == GB_MEDIUM;
        if (!medium || !field_name(out, bytes, "page", at / 64, at % 64, medium_fields, COUNT(medium_fields)))
            field_name(out, bytes, "page", at / 64, at % 64, page_fields, COUNT(page_fields));
    } else if ((at = a - (uintptr_t)gb_the.large) < sizeof saved.large)
        field_name(out, bytes, "large", at / 64, at % 64, page_fields, COUNT(page_fields));
    else if ((at = a - (uintptr_t)gb_the.heaps) < HEAPS * GB_HEAP_STRIDE)
        field_name(out, bytes, "heap", at / GB_HEAP_STRIDE, at % GB_HEAP_STRIDE, heap_fields, COUNT(heap_fields));
    else if ((at = a - (uintptr_t)&gb_the) < sizeof gb_the)
        field_name(out, bytes, "region", 1, at, region_fields, COUNT(region_fields));
    else if ((at = a - (uintptr_t)gb_the.chunk_table) < sizeof(gb_chunk))
        field_name(out, bytes, "chunk", 0, at, chunk_fields, COUNT(chunk_fields));
    else if ((at = a - (uintptr_t)&glebe_live) < sizeof glebe_live) {
        const char *name = glebe_live_names;
        for (size_t i = (at - offsetof(struct glebe_live, stats)) / 8; i > 0 && *name; i--)
            name += strlen(name) + 1;
        snprintf(out, bytes, "statistic %s", name);
    } else if ((at = a - gb_the.base) < GB_CHUNK_BYTES)
        snprintf(out, bytes, "block page%zu+%zu", (size_t)(at >> GB_SLICE_LOG2), (size_t)(at % GB_SLICE_BYTES));
    else
        snprintf(out, bytes, "%p", (void *)a);
}

/* Calls addr2line, if it is installed; caches the last answers. */
const char *host_line(const void *pc, int slot)
{
    extern const char __executable_start[];
    static char lines[2][80], command[400], path[256];
    const Elf64_Ehdr *header = (const void *)__executable_start;
    uintptr_t base = header->e_type == ET_DYN ? (uintptr_t)__executable_start : 0, at = (uintptr_t)pc - base - 1;
    snprintf(lines[slot], sizeof lines[slot], "+0x%zx", (size_t)at);
    if (!pc || !realpath("/proc/self/exe", path))
        return lines[slot];
    snprintf(command, sizeof command, "addr2line -s -e '%s' %zx 2>/dev/null", path, (size_t)at);
    FILE *pipe = popen(command, "r");
    if (pipe) {
        char line[80];
        if (fgets(line, sizeof line, pipe) && line[0] != '?') {
            line[strcspn(line, " \n")] = 0;
            snprintf(lines[slot], sizeof lines[slot], "%s", line);
        }
        pclose(pipe);
    }
    return lines[slot];
}
