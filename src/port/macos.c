/* The host contract (../port.h) on macOS: written after its headers and manuals, compiled in tests for both processors, and not
 * run there yet. What differs from Linux:
 *
 *     purging       MADV_FREE_REUSABLE leaves the old contents until the system wants the pages, and the core counts on zeros:
 *                   a fresh mapping is laid over the range instead, which drops the pages and reads as zero
 *     moving        there is no mremap; mach_vm_remap would share the pages: say no, and the core copies
 *     waiting       __ulock_wait and __ulock_wake are what the system's own locks sleep on, but they are private; here waiters
 *                   sleep on one of 64 condition variables, chosen by the word's address, whose mutex orders look and wake
 *     huge pages    the system decides
 *
 * Every function keeps errno. Address space is reserved with PROT_NONE, which costs nothing, and committed by mprotect. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../port.h"

size_t gb_port_page_bytes(void)
{
    return (size_t)getpagesize(); /* 16 KiB on Apple's processors, 4 KiB on Intel's */
}

size_t gb_port_address_bytes(void)
{
    struct rlimit limit;
    int saved = errno;
    size_t bytes = SIZE_MAX;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < SIZE_MAX)
        bytes = (size_t)limit.rlim_cur;
    errno = saved;
    return bytes;
}

static void *macos_map(uintptr_t at, size_t bytes, int protection, int flags)
{
    int saved = errno;
    void *p = mmap((void *)at, bytes, protection, MAP_PRIVATE | MAP_ANON | MAP_NORESERVE | flags, -1, 0);
    errno = saved;
    return p;
}

uintptr_t gb_port_reserve(size_t bytes)
{
    size_t slack = (size_t)1 << 22;
    void *p = macos_map(0, bytes + slack, PROT_NONE, 0);
    if (p == MAP_FAILED)
        return 0;
    uintptr_t start = ((uintptr_t)p + slack - 1) & ~(uintptr_t)(slack - 1);
    int saved = errno;
    if (start > (uintptr_t)p)
        munmap(p, start - (uintptr_t)p);
    munmap((void *)(start + bytes), (uintptr_t)p + slack - start);
    errno = saved;
    return start;
}

/* Above the shared cache of system libraries, and far from where programs and their heaps begin. */
uintptr_t gb_port_propose(size_t bytes, unsigned attempt)
{
    (void)bytes;
    return attempt < 4 ? (uintptr_t)0x300000000000u + ((uintptr_t)attempt << 44) : 0;
}

/* Without MAP_FIXED an address is a hint: what lies there already is never replaced. */
enum gb_commit gb_port_commit(uintptr_t at, size_t bytes, bool reserved)
{
    if (reserved) {
        int saved = errno;
        bool ok = mprotect((void *)at, bytes, PROT_READ | PROT_WRITE) == 0;
        errno = saved;
        return ok ? GB_COMMITTED : GB_NO_MEMORY;
    }
    void *p = macos_map(at, bytes, PROT_READ | PROT_WRITE, 0);
    if (p == MAP_FAILED)
        return GB_NO_MEMORY;
    if (p != (void *)at) {
        int saved = errno;
        munmap(p, bytes);
        errno = saved;
        return GB_TAKEN;
    }
    return GB_COMMITTED;
}

bool gb_port_decommit(uintptr_t at, size_t bytes, bool reserved)
{
    if (reserved)
        return macos_map(at, bytes, PROT_NONE, MAP_FIXED) == (void *)at;
    int saved = errno;
    bool ok = munmap((void *)at, bytes) == 0;
    errno = saved;
    return ok;
}

enum gb_purge gb_port_purge(uintptr_t at, size_t bytes, bool lazily)
{
    int saved = errno;
    bool lazy = lazily && madvise((void *)at, bytes, MADV_FREE) == 0;
    errno = saved;
    if (lazy)
        return GB_PURGE_LAZY;
    return macos_map(at, bytes, PROT_READ | PROT_WRITE, MAP_FIXED) == (void *)at ? GB_PURGE_ZERO : GB_PURGE_REFUSED;
}

enum gb_move gb_port_move(uintptr_t from, uintptr_t to, size_t bytes)
{
    (void)from;
    (void)to;
    (void)bytes;
    return GB_STAYED;
}

void gb_port_populate(uintptr_t at, size_t bytes)
{
    int saved = errno;
    madvise((void *)at, bytes, MADV_WILLNEED);
    errno = saved;
}

void gb_port_huge_pages(uintptr_t at, size_t bytes, bool wanted)
{
    (void)at;
    (void)bytes;
    (void)wanted;
}

void gb_port_protect(uintptr_t at, size_t bytes)
{
    int saved = errno;
    mprotect((void *)at, bytes, PROT_NONE);
    errno = saved;
}

bool gb_port_pressure(uint64_t *limit_bytes, uint64_t *used_bytes)
{
    (void)limit_bytes;
    (void)used_bytes;
    return false;
}

uint32_t gb_port_now_ms(void)
{
    return (uint32_t)(clock_gettime_nsec_np(CLOCK_MONOTONIC_RAW_APPROX) / 1000000);
}

uint64_t gb_port_random(void)
{
    int saved = errno;
    uint64_t value = 0;
    if (getentropy(&value, sizeof value) != 0)
        value = clock_gettime_nsec_np(CLOCK_MONOTONIC_RAW) * 0x9e3779b97f4a7c15u ^ (uintptr_t)&value;
    errno = saved;
    return value;
}

const char *gb_port_environment(const char *name)
{
    return issetugid() ? NULL : getenv(name);
}

/* A library must not name `environ` there; the function that stands for it is in <crt_externs.h>. */
extern char ***_NSGetEnviron(void);

char *const *gb_port_environment_all(void)
{
    return issetugid() ? NULL : *_NSGetEnviron();
}

static void macos_write(int file, const char *text, size_t bytes)
{
    int saved = errno;
    while (bytes > 0) {
        ssize_t written = write(file, text, bytes);
        if (written <= 0)
            break;
        text += written;
        bytes -= (size_t)written;
    }
    errno = saved;
}

void gb_port_print(const char *text, size_t bytes)
{
    macos_write(STDERR_FILENO, text, bytes);
}

/* As in linux.c, which says why. */
static struct {
    bool kept;
    int copy;
    dev_t device;
    ino_t file;
} macos_stderr;

void gb_port_keep_stderr(void)
{
    enum { TOP = 256, ROOM = 16 }; /* the usual limit there */
    struct stat file;
    struct rlimit limit;
    int saved = errno;
    if (!macos_stderr.kept && fstat(STDERR_FILENO, &file) == 0) {
        macos_stderr.kept = true;
        macos_stderr.device = file.st_dev;
        macos_stderr.file = file.st_ino;
        macos_stderr.copy = -1;
        if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur > 2 * ROOM)
            macos_stderr.copy = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, (limit.rlim_cur < TOP ? (int)limit.rlim_cur : TOP) - ROOM);
    }
    errno = saved;
}

static bool macos_is_stderr(int file)
{
    struct stat now;
    return macos_stderr.kept && file >= 0 && fstat(file, &now) == 0 && now.st_dev == macos_stderr.device
        && now.st_ino == macos_stderr.file;
}

void gb_port_say(const char *text, size_t bytes)
{
    int saved = errno, file = macos_is_stderr(macos_stderr.copy) ? macos_stderr.copy : STDERR_FILENO;
    if (macos_is_stderr(file))
        macos_write(file, text, bytes);
    errno = saved;
}

const char *gb_port_program(void)
{
    const char *name = getprogname();
    return name ? name : "";
}

uint32_t gb_port_process(void)
{
    return (uint32_t)getpid();
}

_Noreturn void gb_port_abort(void)
{
    abort();
}

/* ---- waiting ---- */

enum { MACOS_BEDS = 64 };

typedef struct macos_bed {
    pthread_mutex_t mutex;
    pthread_cond_t condition;
} macos_bed;

#define MACOS_BED {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER}
#define MACOS_BED_8 MACOS_BED, MACOS_BED, MACOS_BED, MACOS_BED, MACOS_BED, MACOS_BED, MACOS_BED, MACOS_BED
static macos_bed macos_beds[MACOS_BEDS] = {
    MACOS_BED_8, MACOS_BED_8, MACOS_BED_8, MACOS_BED_8, MACOS_BED_8, MACOS_BED_8, MACOS_BED_8, MACOS_BED_8};

static macos_bed *macos_bed_of(const void *word)
{
    return &macos_beds[((uintptr_t)word >> 4) % MACOS_BEDS];
}

void gb_port_wait(_Atomic uint32_t *word, uint32_t expected, uint32_t ms)
{
    macos_bed *bed = macos_bed_of((const void *)word);
    int saved = errno;
    pthread_mutex_lock(&bed->mutex);
    if (gb_load(word) == expected) { /* looked at under the mutex, which whoever wakes takes too: no wake is missed */
        if (ms == UINT32_MAX)
            pthread_cond_wait(&bed->condition, &bed->mutex);
        else {
            struct timespec t = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
            pthread_cond_timedwait_relative_np(&bed->condition, &bed->mutex, &t);
        }
    }
    pthread_mutex_unlock(&bed->mutex);
    errno = saved;
}

void gb_port_wake(_Atomic uint32_t *word)
{
    macos_bed *bed = macos_bed_of((const void *)word);
    int saved = errno;
    pthread_mutex_lock(&bed->mutex);
    pthread_cond_broadcast(&bed->condition);
    pthread_mutex_unlock(&bed->mutex);
    errno = saved;
}

void gb_port_yield(void)
{
    sched_yield();
}

/* ---- threads ---- */

static pthread_key_t macos_key;
static pthread_once_t macos_key_once = PTHREAD_ONCE_INIT;
static bool macos_key_ready;

static void macos_key_end(void *value)
{
    (void)value;
    gb_thread_exit();
}

static void macos_key_make(void)
{
    macos_key_ready = pthread_key_create(&macos_key, macos_key_end) == 0;
}

void gb_port_thread_arm(void)
{
    pthread_once(&macos_key_once, macos_key_make);
    if (macos_key_ready)
        pthread_setspecific(macos_key, &macos_key);
}

static void *macos_thread_run(void *run)
{
    pthread_setname_np("glebe");
    (*(void (**)(void))run)();
    return NULL;
}

bool gb_port_thread_start(void (*run)(void))
{
    static void (*held)(void); /* the same function every time */
    held = run;
    int saved = errno;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_t attributes;
    pthread_t thread;
    bool ok = false;
    if (pthread_attr_init(&attributes) == 0) {
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        pthread_attr_setstacksize(&attributes, (size_t)256 << 10);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        ok = pthread_create(&thread, &attributes, macos_thread_run, &held) == 0;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attributes);
    }
    errno = saved;
    return ok;
}

/* The child finds the beds empty: a thread that slept in one, or held its mutex, is not there any more. */
static void macos_fork_child(void)
{
    for (int i = 0; i < MACOS_BEDS; i++)
        macos_beds[i] = (macos_bed)MACOS_BED;
    gb_fork_child();
}

void gb_port_start(void)
{
    int saved = errno;
    pthread_atfork(gb_fork_prepare, gb_fork_parent, macos_fork_child);
    errno = saved;
}
