/* The host contract (../port.h) on macOS. Written from the system's headers and manuals. Tests compile it for both
 * processors; it has not run on macOS yet. Differences from Linux:
 *
 *     purging       MADV_FREE_REUSABLE leaves the old contents until the system wants the pages, but the core needs
 *                   zeros: a fresh mapping replaces the range, which drops the pages and reads as zero
 *     moving        there is no mremap, and mach_vm_remap would share the pages: GB_STAYED, and the core copies
 *     waiting       __ulock_wait and __ulock_wake, on which the system's own locks sleep, are private. Waiters sleep
 *                   on one of 64 condition variables, chosen by the word's address; its mutex orders check and wake
 *     huge pages    the system decides
 *
 * Every function keeps errno. Address space is reserved with PROT_NONE, which costs nothing, and committed by
 * mprotect. */
#include <limits.h>
#include <sys/random.h>

size_t gb_port_page_bytes(void)
{
    return (size_t)getpagesize(); /* 16 KiB on Apple's processors, 4 KiB on Intel's */
}

size_t gb_port_address_bytes(void)
{
    return posix_address_bytes(SIZE_MAX);
}

/* Places above the shared cache of system libraries, far from where programs and their heaps begin. */
uintptr_t gb_port_propose(size_t bytes, unsigned attempt, size_t *room)
{
    (void)bytes;
    *room = (size_t)1 << 44;
    return attempt < 4 ? (uintptr_t)0x300000000000u + ((uintptr_t)attempt << 44) : 0;
}

enum gb_commit gb_port_commit(uintptr_t at, size_t bytes, bool reserved)
{
    return posix_commit(at, bytes, reserved, 0);
}

enum gb_purge gb_port_purge(uintptr_t at, size_t bytes, bool lazily)
{
    if (lazily && posix_advise(at, bytes, MADV_FREE))
        return GB_PURGE_LAZY;
    return posix_map(at, bytes, PROT_READ | PROT_WRITE, MAP_FIXED) == (void *)at ? GB_PURGE_ZERO : GB_PURGE_REFUSED;
}

enum gb_move gb_port_move(uintptr_t from, uintptr_t to, size_t bytes)
{
    (void)from;
    (void)to;
    (void)bytes;
    return GB_STAYED;
}

void gb_port_huge_pages(uintptr_t at, size_t bytes, bool wanted)
{
    (void)at;
    (void)bytes;
    (void)wanted;
}

bool gb_port_huge_page_quick(uintptr_t at)
{
    (void)at;
    return true;
}

size_t gb_port_resident(uintptr_t at, size_t bytes)
{
    (void)at;
    return bytes;
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

/* A library must not name `environ` on macOS; this function, from <crt_externs.h>, returns its address. */
extern char ***_NSGetEnviron(void);

char *const *gb_port_environment_all(void)
{
    return issetugid() ? NULL : *_NSGetEnviron();
}

void gb_port_keep_stderr(void)
{
    posix_keep_stderr(256);
}

static int posix_accessible(void)
{
    return PROT_READ | PROT_WRITE;
}

static void posix_write(int file, const char *text, size_t bytes)
{
    int saved = errno, cancel = posix_cancel_off();
    while (bytes > 0) {
        ssize_t written = write(file, text, bytes);
        if (written <= 0)
            break;
        text += written;
        bytes -= (size_t)written;
    }
    posix_cancel_restore(cancel);
    errno = saved;
}

bool gb_port_append(const char *path, const char *text, size_t bytes)
{
    (void)path, (void)text, (void)bytes;
    return false; /* the command uses it on Linux only */
}

bool gb_port_malloc_elsewhere(void) { return false; } /* the system's zones, not symbols, decide it there */

const char *gb_port_program(void)
{
    const char *name = getprogname();
    return name ? name : "";
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
    int saved = errno, cancel = posix_cancel_off();
    pthread_mutex_lock(&bed->mutex);
    if (gb_load(word) == expected) { /* checked under the mutex that the waking thread takes too: no wake is missed */
        if (ms == UINT32_MAX)
            pthread_cond_wait(&bed->condition, &bed->mutex);
        else {
            struct timespec t = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
            pthread_cond_timedwait_relative_np(&bed->condition, &bed->mutex, &t);
        }
    }
    pthread_mutex_unlock(&bed->mutex);
    posix_cancel_restore(cancel);
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

/* ---- threads ---- */

static void *macos_thread_run(void *run)
{
    pthread_setname_np("glebe");
    gb_load((void (*_Atomic *)(void))run)();
    return NULL;
}

bool gb_port_thread_start(void (*run)(void))
{
    return posix_thread_start(macos_thread_run, run);
}

/* Resets all beds in the child: threads that slept in one, or held its mutex, do not exist there. */
static void macos_fork_child(void)
{
    for (int i = 0; i < MACOS_BEDS; i++)
        macos_beds[i] = (macos_bed)MACOS_BED;
    gb_fork_child();
}

static void posix_fork_watch(void)
{
    pthread_atfork(gb_fork_prepare, gb_fork_parent, macos_fork_child);
}

void gb_port_start(void)
{
    int saved = errno;
    gb_port_thread_arm();
    errno = saved;
}
