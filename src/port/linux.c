/* The host contract (../port.h) on Linux, for glibc and musl, static and dynamic.
 *
 * Address space is reserved only if no proposed place works. Otherwise each commit maps its own piece with
 * MAP_FIXED_NOREPLACE, and so finds out whether the address is taken. The kernel merges adjacent pieces into one
 * mapping. madvise(MADV_DONTNEED) purges, MADV_FREE purges lazily; on locked memory both fail, and gb_port_purge
 * returns GB_PURGE_REFUSED. Every function keeps errno. */
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* Newer than some libc headers, or in none: musl includes no headers of the kernel. */
enum { LINUX_FUTEX_WAIT = 0, LINUX_FUTEX_WAKE = 1, LINUX_FUTEX_PRIVATE = 128 };
enum {
    LINUX_MADV_FREE = 8,
    LINUX_MAP_FIXED_NOREPLACE = 0x100000,
    LINUX_MREMAP_DONTUNMAP = 4
};

size_t gb_port_page_bytes(void)
{
    return (size_t)getauxval(AT_PAGESZ);
}

/* A mapping without memory counts against a limit that the program may set on itself later, so the core reserves
 * nothing. */
size_t gb_port_address_bytes(void)
{
    return posix_address_bytes(sizeof(size_t) == 8 ? SIZE_MAX >> 24 : SIZE_MAX);
}

/* On 64 bits the places are 16 TiB apart, far below the top, where mmap begins; the last place is for processors with
 * 39-bit addresses. On 32 bits the first place is between the program's own segments and mmap's top, the second below.
 * Maps the last page of a place to see whether the whole place is addressable. The first four are random within their
 * room, unless the process asked for addresses that are always the same, as under a debugger. */
uintptr_t gb_port_propose(size_t bytes, unsigned attempt, size_t *room)
{
    enum { LINUX_ADDR_NO_RANDOMIZE = 0x40000 };
    static const uint64_t wide[] = {0x1000ull << 32, 0x2000ull << 32, 0x3000ull << 32, 0x4000ull << 32, 0x10ull << 32};
    static const uint32_t narrow[] = {0x60000000, 0x10000000};
    uintptr_t at = 0, page = (uintptr_t)getauxval(AT_PAGESZ);
    if (sizeof(void *) == 8)
        at = attempt < sizeof wide / sizeof wide[0] ? (uintptr_t)wide[attempt] : 0;
    else
        at = attempt < sizeof narrow / sizeof narrow[0] ? narrow[attempt] : 0;
    bool is_fixed = sizeof(void *) == 4 || attempt >= 4 || (personality(UINT32_MAX) & LINUX_ADDR_NO_RANDOMIZE);
    size_t all = is_fixed ? bytes : (size_t)(UINT64_C(1) << 44);
    if (at == 0 || at + all < at || bytes > all)
        return 0;
    *room = all;
    void *last = posix_map(at + all - page, page, PROT_NONE, 0); /* elsewhere, if this address does not exist */
    if (last == MAP_FAILED)
        return 0;
    posix_unmap((uintptr_t)last, page);
    return (uintptr_t)last == at + all - page ? at : gb_port_propose(bytes, attempt + 1, room);
}

/* Memory tags of 64-bit Arm: all memory that was not tagged yet has the tag 0. */
enum { LINUX_PROT_MTE = 0x20, LINUX_HWCAP2_MTE = 1 << 18 };
static bool linux_tags(void)
{
    return GB_TAGS && getauxval(AT_HWCAP2) & LINUX_HWCAP2_MTE;
}

static int posix_accessible(void)
{
    return PROT_READ | PROT_WRITE | (linux_tags() ? LINUX_PROT_MTE : 0);
}

extern char __libc_single_threaded __attribute__((weak)); /* glibc's; musl has none, nor threads at the start */

/* The kernel keeps the choice for each thread. Tag 0 is never drawn. The system calls take tagged addresses, too. */
bool gb_port_tags(bool compared)
{
    enum { CONTROL = 55, ENABLED = 1, AT_ONCE = 1 << 1, DRAWN = 0xfffe << 3 };
    if (!linux_tags() || (compared && &__libc_single_threaded && !__libc_single_threaded))
        return false;
    int saved = errno;
    bool done = prctl(CONTROL, ENABLED | (compared ? AT_ONCE : 0) | DRAWN, 0, 0, 0) == 0;
    errno = saved;
    return done;
}

enum gb_commit gb_port_commit(uintptr_t at, size_t bytes, bool reserved)
{
    return posix_commit(at, bytes, reserved, LINUX_MAP_FIXED_NOREPLACE);
}

enum gb_purge gb_port_purge(uintptr_t at, size_t bytes, bool lazily)
{
    if (lazily && posix_advise(at, bytes, LINUX_MADV_FREE))
        return GB_PURGE_LAZY;
    return posix_advise(at, bytes, MADV_DONTNEED) ? GB_PURGE_ZERO : GB_PURGE_REFUSED;
}

/* Moves the contents of a single mapping. Without a C library between: some pass no `to` if MREMAP_FIXED is not set. */
static bool linux_move(uintptr_t from, uintptr_t *to, size_t bytes, int flags)
{
    long place = syscall(SYS_mremap, from, bytes, bytes, MREMAP_MAYMOVE | flags, *to);
    if (place == -1)
        return false;
    *to = (uintptr_t)place;
    return true;
}

/* Moves back what was moved elsewhere. `from` is still a mapping. */
static void linux_move_back(uintptr_t elsewhere, uintptr_t from, size_t bytes)
{
    uintptr_t to = from;
    if (linux_move(elsewhere, &to, bytes, MREMAP_FIXED))
        return;
    gb_port_commit(from, bytes, false); /* the kernel may have unmapped it before it failed */
    memcpy((void *)from, (const void *)elsewhere, bytes);
    posix_unmap(elsewhere, bytes);
}

/* `from` may be several mappings, after an madvise of a part of it. With MREMAP_FIXED Linux 6.17 and later move one
 * after another, and may fail when some have moved; earlier ones unmap `to` before they refuse. Without it the kernel
 * moves all or nothing, to the proposed place if that is free: so `to` is unmapped first. After a failure
 * gb_port_commit fills the hole, unless another thread's mmap was faster.
 *
 * User-mode emulators (qemu 7.2) treat `from` as unmapped afterwards. A missing vDSO reveals them: the kernel maps one
 * into every process, such emulators and valgrind map none. */
enum gb_move gb_port_move(uintptr_t from, uintptr_t to, size_t bytes)
{
    if (!getauxval(AT_SYSINFO_EHDR) || !posix_unmap(to, bytes))
        return GB_STAYED;
    int saved = errno;
    uintptr_t place = to;
    bool moved = linux_move(from, &place, bytes, LINUX_MREMAP_DONTUNMAP);
    if (moved && place != to)
        linux_move_back(place, from, bytes);
    errno = saved;
    if (moved && place == to)
        return GB_MOVED;
    return gb_port_commit(to, bytes, false) == GB_COMMITTED ? GB_STAYED : GB_PLACE_LOST;
}

void gb_port_huge_pages(uintptr_t at, size_t bytes, bool wanted)
{
    posix_advise(at, bytes, wanted ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

/* Clearing 2 MiB takes 0.1 to 0.4 ms, in small pages 0.3 to 1.3. It takes longer if the kernel first moves other pages
 * out of the way, or if the host of a virtual machine has to find the memory. */
enum { LINUX_QUICK_NS = 1000000 };

static uint64_t linux_thread_ns(void)
{
    struct timespec t = {0, 0}; /* if the clock cannot be read, everything is quick */
    int saved = errno;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* the thread's own time: other threads' work does not count */
    errno = saved;
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

bool gb_port_huge_page_quick(uintptr_t at)
{
    uint64_t start = linux_thread_ns();
    *(volatile char *)at = 0;
    return linux_thread_ns() - start < LINUX_QUICK_NS;
}

size_t gb_port_resident(uintptr_t at, size_t bytes)
{
    unsigned char pages[4096]; /* bit 0 of each: the page is resident */
    size_t page = gb_port_page_bytes(), count = bytes / page, resident = 0;
    int saved = errno;
    bool told = count <= sizeof pages && mincore((void *)at, bytes, pages) == 0;
    errno = saved;
    for (size_t i = 0; told && i < count; i++)
        resident += pages[i] & 1;
    return told ? resident * page : bytes;
}

/* ---- the group of processes ----
 * /proc/self/cgroup names it: "0::/path" in version 2 (unified), "N:memory:/path" in version 1. Each group on the way
 * up may have a limit of its own; the limit closest to being reached counts. In a container the path may be the host's,
 * which does not exist inside: walking up still ends at the container's own group. */

enum { LINUX_PATH_BYTES = 1024, LINUX_NAME_BYTES = 64 };

typedef struct linux_group {
    bool unified;
    size_t root_length, length; /* of the folder's name, without and with the group's path */
    char name[LINUX_PATH_BYTES]; /* has room for a file's name behind it */
    char text[2048]; /* the text that linux_read read last */
} linux_group;

static bool linux_read(const char *path, char *text, size_t bytes)
{
    int saved = errno, cancel = posix_cancel_off();
    ssize_t got = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        got = read(fd, text, bytes - 1);
        close(fd);
    }
    posix_cancel_restore(cancel);
    errno = saved;
    text[got > 0 ? got : 0] = 0;
    return got > 0;
}

static bool linux_number(const char *text, uint64_t *value)
{
    if (*text < '0' || *text > '9')
        return false; /* "max" */
    for (*value = 0; *text >= '0' && *text <= '9'; text++)
        *value = *value * 10 + (uint64_t)(*text - '0');
    return true;
}

static bool linux_group_read(linux_group *group, const char *file)
{
    memcpy(group->name + group->length, file, strlen(file) + 1);
    return linux_read(group->name, group->text, sizeof group->text);
}

/* The lower of the two limits: above memory.high the kernel slows processes down until they hardly run. The soft limits
 * of version 1 neither slow nor end a process. */
static bool linux_group_limit(linux_group *group, uint64_t *limit)
{
    static const char *const files[2][2] = {{"/memory.limit_in_bytes"}, {"/memory.max", "/memory.high"}};
    *limit = (uint64_t)1 << 60; /* a number this large means none */
    for (int i = 0; i < 2; i++) {
        const char *file = files[group->unified][i];
        uint64_t value;
        if (file && linux_group_read(group, file) && linux_number(group->text, &value) && value != 0 && value < *limit)
            *limit = value;
    }
    return *limit < (uint64_t)1 << 60;
}

/* The limit of this group and its use; false if the group has no limit, or does not exist. Does not count file cache
 * that was not used lately: the kernel drops such cache before a request fails, and a program that reads files fills
 * its group with it. */
static bool linux_group_pressure(linux_group *group, uint64_t *limit, uint64_t *used)
{
    if (!linux_group_limit(group, limit)
        || !linux_group_read(group, group->unified ? "/memory.current" : "/memory.usage_in_bytes")
        || !linux_number(group->text, used))
        return false;
    uint64_t droppable;
    const char *key = group->unified ? "\ninactive_file " : "\ntotal_inactive_file ";
    if (*used > *limit / 4 * 3 && linux_group_read(group, "/memory.stat")) { /* slow to read, so only near the limit */
        const char *at = strstr(group->text, key);
        if (at && linux_number(at + strlen(key), &droppable))
            *used -= droppable < *used ? droppable : *used;
    }
    return true;
}

/* Finds the group's folder below `root`; takes `root` itself if /proc does not name the group. */
static void linux_group_find(linux_group *group, const char *root, bool unified)
{
    group->unified = unified;
    group->length = group->root_length = strlen(root);
    memcpy(group->name, root, group->length);
    if (!linux_read("/proc/self/cgroup", group->text, sizeof group->text))
        return;
    const char *key = unified ? "0::" : ":memory:", *at = group->text;
    while (at
        && !(unified ? strncmp(at, key, strlen(key)) == 0
                     : strncmp(at + strspn(at, "0123456789"), key, strlen(key)) == 0))
        at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL;
    if (!at)
        return;
    at = strchr(strchr(at, ':') + 1, ':') + 1;
    size_t length = strcspn(at, "\n");
    if (*at != '/' || group->length + length + LINUX_NAME_BYTES > sizeof group->name)
        return;
    length -= length == 1; /* the root is "/" */
    memcpy(group->name + group->length, at, length);
    group->length += length;
}

bool gb_port_pressure(uint64_t *limit_bytes, uint64_t *used_bytes)
{
    linux_group group;
    bool found = false;
    for (int unified = 1; unified >= 0 && !found; unified--) {
        linux_group_find(&group, unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory", unified);
        for (;;) {
            uint64_t limit, used;
            if (linux_group_pressure(&group, &limit, &used)
                && (!found || used / (limit / 1024 + 1) > *used_bytes / (*limit_bytes / 1024 + 1))) {
                found = true;
                *limit_bytes = limit;
                *used_bytes = used;
            }
            if (group.length == group.root_length)
                break;
            while (group.name[--group.length] != '/') {}
        }
    }
    return found;
}

uint32_t gb_port_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (uint32_t)((uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000);
}

uint64_t gb_port_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t gb_port_random(void)
{
    int saved = errno;
    uint64_t value = 0;
    if (syscall(SYS_getrandom, &value, sizeof value, 1) != (long)sizeof value) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        value = (uint64_t)t.tv_nsec * 0x9e3779b97f4a7c15u ^ (uintptr_t)&value;
    }
    errno = saved;
    return value;
}

const char *gb_port_environment(const char *name)
{
    return getauxval(AT_SECURE) ? NULL : getenv(name);
}

char *const *gb_port_environment_all(void)
{
    extern char **environ;
    return getauxval(AT_SECURE) ? NULL : environ;
}

void gb_port_keep_stderr(void)
{
    posix_keep_stderr(1024);
}

static void posix_write(int file, const char *text, size_t bytes)
{
    gb_port_put(file, text, bytes);
}

/* Whether the file ends in the middle of a line: a limit, or a full disk, cut what was written last. */
static bool linux_is_cut(int file, const char *path)
{
    struct stat about;
    char last = '\n';
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size == 0)
        return false;
    int reader = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    bool read = reader >= 0 && pread(reader, &last, 1, about.st_size - 1) == 1;
    if (reader >= 0)
        close(reader);
    return read && last != '\n';
}

bool gb_port_append(const char *path, const char *text, size_t bytes)
{
    int saved = errno, cancel = posix_cancel_off();
    int file = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    bool done = file >= 0 && (!linux_is_cut(file, path) || gb_port_put(file, "\n", 1) == 0)
        && gb_port_put(file, text, bytes) == 0;
    if (file >= 0)
        close(file);
    posix_cancel_restore(cancel);
    errno = saved;
    return done;
}

/* The name that execve got. For a script it is the script's name; the C library's variables name the interpreter. */
const char *gb_port_program(void)
{
    const char *path = (const char *)getauxval(AT_EXECFN), *slash = path ? strrchr(path, '/') : NULL;
    return slash ? slash + 1 : path ? path : "";
}

/* ---- loaded code ---- */

typedef struct linux_modules {
    void (*each)(void *context, const gb_module *module);
    void *context;
    const char *program; /* the path of the program itself, which has no name in the list */
} linux_modules;

/* Finds the note with the build-id in the memory of a module. */
static void linux_build_id(const struct dl_phdr_info *info, gb_module *module)
{
    enum { BUILD_ID = 3 };
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_NOTE)
            continue;
        const char *at = (const char *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        const char *end = at + info->dlpi_phdr[i].p_memsz;
        while (end - at >= (ptrdiff_t)sizeof(ElfW(Nhdr))) {
            const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)(const void *)at;
            size_t name = (note->n_namesz + 3u) & ~3u, bytes = (note->n_descsz + 3u) & ~3u;
            const char *text = at + sizeof *note;
            if (name > (size_t)(end - text) || bytes > (size_t)(end - text) - name)
                break;
            if (note->n_type == BUILD_ID && note->n_namesz == 4 && memcmp(text, "GNU", 4) == 0) {
                module->build_id = (const uint8_t *)text + name;
                module->build_id_bytes = note->n_descsz;
                return;
            }
            at = text + name + bytes;
        }
    }
}

static int linux_module(struct dl_phdr_info *info, size_t bytes, void *data)
{
    const linux_modules *modules = data;
    gb_module module = {.path = info->dlpi_name && *info->dlpi_name ? info->dlpi_name : modules->program};
    (void)bytes;
    linux_build_id(info, &module);
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_LOAD || !(info->dlpi_phdr[i].p_flags & PF_X))
            continue;
        module.start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        module.end = module.start + info->dlpi_phdr[i].p_memsz;
        module.offset = info->dlpi_phdr[i].p_offset;
        modules->each(modules->context, &module);
    }
    return 0;
}

void gb_port_modules(void (*each)(void *context, const gb_module *module), void *context)
{
    char program[LINUX_PATH_BYTES];
    int saved = errno, cancel = posix_cancel_off();
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = 0;
    linux_modules modules = {each, context, program};
    dl_iterate_phdr(linux_module, &modules);
    posix_cancel_restore(cancel);
    errno = saved;
}

/* ---- files of profiles ---- */

int gb_port_create(const char *path, bool anew, int *error)
{
    int saved = errno, cancel = posix_cancel_off();
    int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | (anew ? O_EXCL : O_TRUNC);
    int file = open(path, flags, 0600);
    *error = file < 0 ? errno : 0;
    posix_cancel_restore(cancel);
    errno = saved;
    return file;
}

/* A write beyond the limit on the size of files raises SIGXFSZ, one to a pipe whose reader has gone SIGPIPE. Blocks
 * both signals, and takes the one that came. */
int gb_port_put(int file, const char *text, size_t bytes)
{
    int saved = errno, error = 0, cancel = posix_cancel_off();
    sigset_t raised, before, waiting;
    struct timespec none = {0, 0};
    sigemptyset(&raised);
    sigaddset(&raised, SIGXFSZ);
    sigaddset(&raised, SIGPIPE);
    sigpending(&waiting);
    pthread_sigmask(SIG_BLOCK, &raised, &before);
    while (bytes > 0 && !error) {
        ssize_t written = write(file, text, bytes);
        if (written > 0) {
            text += written;
            bytes -= (size_t)written;
        } else if (written == 0)
            error = EIO;
        else if (errno != EINTR)
            error = errno;
    }
    if (sigismember(&waiting, SIGXFSZ))
        sigdelset(&raised, SIGXFSZ);
    if (sigismember(&waiting, SIGPIPE))
        sigdelset(&raised, SIGPIPE);
    if (error)
        sigtimedwait(&raised, NULL, &none);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    posix_cancel_restore(cancel);
    errno = saved;
    return error;
}

int gb_port_finish(int file, const char *from, const char *to)
{
    int saved = errno, cancel = posix_cancel_off(), error = close(file) == 0 ? 0 : errno;
    struct stat there;
    if (to && !error && lstat(to, &there) == 0 && !S_ISREG(there.st_mode))
        error = EEXIST; /* a device, say */
    if (to && !error && rename(from, to) != 0)
        error = errno;
    if (!to || error)
        unlink(from);
    posix_cancel_restore(cancel);
    errno = saved;
    return error;
}

static long linux_futex(_Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *timeout)
{
#ifdef SYS_futex
    return syscall(SYS_futex, word, operation | LINUX_FUTEX_PRIVATE, value, timeout, NULL, 0);
#else /* 32-bit hosts whose only futex call takes 64-bit times */
    struct { long long seconds, nanoseconds; } wide = {timeout ? timeout->tv_sec : 0, timeout ? timeout->tv_nsec : 0};
    return syscall(SYS_futex_time64, word, operation | LINUX_FUTEX_PRIVATE, value, timeout ? &wide : NULL, NULL, 0);
#endif
}

void gb_port_wait(_Atomic uint32_t *word, uint32_t expected, uint32_t ms)
{
    int saved = errno;
    struct timespec t = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    linux_futex(word, LINUX_FUTEX_WAIT, expected, ms == UINT32_MAX ? NULL : &t);
    errno = saved;
}

void gb_port_wake(_Atomic uint32_t *word)
{
    int saved = errno;
    linux_futex(word, LINUX_FUTEX_WAKE, INT_MAX, NULL);
    errno = saved;
}

static void *linux_thread_run(void *run)
{
    prctl(PR_SET_NAME, "glebe");
    gb_load((void (*_Atomic *)(void))run)();
    return NULL;
}

bool gb_port_thread_start(void (*run)(void))
{
    return posix_thread_start(linux_thread_run, run);
}

/* If this library were unloaded, threads that still have our key, and fork's handlers, would call code that is gone. So
 * the object with this code pins itself. Static programs have no such object, and may have no dlopen. */
#ifdef GB_STAYS_LOADED /* libglebe.so is linked with -z nodelete, which saves the call */
enum { LINUX_MAY_UNLOAD = 0 };
#else
enum { LINUX_MAY_UNLOAD = 1 };
#endif

static void linux_stay_loaded(void)
{
    extern int dladdr(const void *, Dl_info *) __attribute__((weak));
    extern void *dlopen(const char *, int) __attribute__((weak));
    Dl_info info;
    if (dladdr && dlopen && dladdr((void *)&posix_key, &info) && info.dli_fname)
        dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

/* Whether the address is only the program's own name for a function of a library: a program at a fixed address has a
 * stub for each function whose address it takes, and dlsym returns that. Only glibc tells. */
static bool linux_is_stub(const void *address)
{
#ifdef __GLIBC__
    extern int dladdr1(const void *, Dl_info *, void **, int) __attribute__((weak));
    Dl_info info;
    void *symbol = NULL;
    if (dladdr1 && dladdr1(address, &info, &symbol, RTLD_DL_SYMENT) && symbol)
        return ((const ElfW(Sym) *)symbol)->st_shndx == SHN_UNDEF;
#endif
    (void)address;
    return false;
}

/* A static program has one object and may have no dlsym, which finds nothing there. Its malloc is glebe's if override.c
 * is linked in. */
bool gb_port_malloc_elsewhere(void)
{
    extern const char gb_is_malloc __attribute__((weak, visibility("hidden")));
    extern int dladdr(const void *, Dl_info *) __attribute__((weak));
    extern void *dlsym(void *, const char *) __attribute__((weak));
    static const char *const family[] = {"malloc", "calloc", "realloc", "memalign"};
    Dl_info theirs, ours;
    for (size_t i = 0; dladdr && dlsym && i < sizeof family / sizeof *family; i++) {
        void *found = dlsym(RTLD_DEFAULT, family[i]);
        if (found && !linux_is_stub(found))
            return dladdr(found, &theirs) && dladdr((void *)&posix_key, &ours) && theirs.dli_fbase != ours.dli_fbase;
    }
    return !&gb_is_malloc;
}

/* ---- fork ----
 * The rules of glibc's own malloc apply:
 * 1. A process with one thread may fork in a signal handler, whatever the signal interrupted. So no lock is taken or
 *    dropped; no other thread can be in the heap.
 * 2. The lock of the list of streams is taken before the heap's. fork itself takes it after these handlers, and a
 *    thread may hold it while it waits for a stream whose owner allocates. glibc lets one thread take it twice, and
 *    resets it in the child.
 * Other C libraries lack these functions, and older ones have only some. */

extern void _IO_list_lock(void) __attribute__((weak));
extern void _IO_list_unlock(void) __attribute__((weak));
extern void _IO_list_resetlock(void) __attribute__((weak));

static bool linux_list_held; /* by this fork; written under that lock */

static void linux_fork_prepare(void)
{
    if (!gb_lock_forking()) {
        if (&__libc_single_threaded && __libc_single_threaded)
            return;
        if (_IO_list_lock && _IO_list_unlock && _IO_list_resetlock) {
            _IO_list_lock();
            linux_list_held = true;
        }
    }
    gb_fork_prepare();
}

static void linux_fork_parent(void)
{
    if (!gb_lock_forking())
        return; /* linux_fork_prepare took no lock */
    gb_fork_parent();
    if (!gb_lock_forking() && linux_list_held) {
        linux_list_held = false;
        _IO_list_unlock();
    }
}

static void linux_fork_child(void)
{
    if (!gb_lock_forking())
        return;
    if (linux_list_held)
        _IO_list_resetlock(); /* again, if the process had one thread when fork began */
    linux_list_held = false;
    gb_fork_child();
}

/* In glibc pthread_atfork ties the handlers to this object, and exit unregisters them: a fork by another thread would
 * then take locks before that and not drop them after. Without an object they stay. This code is never unloaded. */
static void posix_fork_watch(void)
{
    extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *) __attribute__((weak));
    if (__register_atfork)
        __register_atfork(linux_fork_prepare, linux_fork_parent, linux_fork_child, NULL);
    else
        pthread_atfork(linux_fork_prepare, linux_fork_parent, linux_fork_child);
}

void gb_port_start(void)
{
    int saved = errno;
    gb_port_thread_arm();
    if (LINUX_MAY_UNLOAD)
        linux_stay_loaded();
    errno = saved;
}
