/* The host contract (../port.h) as far as all POSIX systems share it: mappings, stderr and a copy of it, keys and
 * threads. Not a port by itself: linux.c or macos.c follows it in ../glebe.c and has the differences. Every function
 * keeps errno. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64 /* 32 bits: else fstat refuses files with large inode numbers */
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../base/config.h"
#include "port.h"

/* ---- memory ---- */

/* The smaller of `plenty` and the process's limit on its address space. */
static size_t posix_address_bytes(size_t plenty)
{
    struct rlimit limit;
    int saved = errno;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < SIZE_MAX)
        plenty = (size_t)limit.rlim_cur;
    errno = saved;
    return plenty;
}

/* The protection of memory in use. Each host has its own. */
static int posix_accessible(void);

static void *posix_map(uintptr_t at, size_t bytes, int protection, int flags)
{
    int saved = errno;
    void *p = mmap((void *)at, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
    errno = saved;
    return p;
}

static bool posix_unmap(uintptr_t at, size_t bytes)
{
    int saved = errno;
    bool ok = munmap((void *)at, bytes) == 0;
    errno = saved;
    return ok;
}

static bool posix_protect(uintptr_t at, size_t bytes, int protection)
{
    int saved = errno;
    bool ok = mprotect((void *)at, bytes, protection) == 0;
    errno = saved;
    return ok;
}

static bool posix_advise(uintptr_t at, size_t bytes, int advice)
{
    int saved = errno;
    bool ok = madvise((void *)at, bytes, advice) == 0;
    errno = saved;
    return ok;
}

uintptr_t gb_port_reserve(size_t bytes)
{
    size_t slack = (size_t)1 << 22;
    void *p = posix_map(0, bytes + slack, PROT_NONE, 0);
    if (p == MAP_FAILED)
        return 0;
    uintptr_t start = ((uintptr_t)p + slack - 1) & ~(uintptr_t)(slack - 1);
    if (start > (uintptr_t)p)
        posix_unmap((uintptr_t)p, start - (uintptr_t)p);
    posix_unmap(start + bytes, (uintptr_t)p + slack - start);
    return start;
}

/* `exactly` is the flag that makes the system refuse an address that is taken. If the system has no such flag (macOS:
 * 0), or does not know it (Linux before 4.17), the address is a hint: the system replaces nothing, and maps
 * elsewhere. */
static enum gb_commit posix_commit(uintptr_t at, size_t bytes, bool reserved, int exactly)
{
    if (reserved)
        return posix_protect(at, bytes, posix_accessible()) ? GB_COMMITTED : GB_NO_MEMORY;
    int saved = errno;
    void *p = mmap(
        (void *)at, bytes, posix_accessible(), MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | exactly, -1, 0);
    bool taken = p == MAP_FAILED ? errno == EEXIST : p != (void *)at;
    errno = saved;
    if (p == MAP_FAILED)
        return taken ? GB_TAKEN : GB_NO_MEMORY;
    if (taken)
        posix_unmap((uintptr_t)p, bytes);
    return taken ? GB_TAKEN : GB_COMMITTED;
}

bool gb_port_decommit(uintptr_t at, size_t bytes, bool reserved)
{
    return reserved ? posix_map(at, bytes, PROT_NONE, MAP_FIXED) == (void *)at : posix_unmap(at, bytes);
}

void gb_port_protect(uintptr_t at, size_t bytes)
{
    posix_protect(at, bytes, PROT_NONE);
}

/* ---- text ---- */

/* System calls that may sleep are cancellation points: a cancelled thread ends there. malloc must not end in the middle
 * of a change to the heap. Between these two calls the thread cannot be cancelled. */
static int posix_cancel_off(void)
{
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static void posix_cancel_restore(int before)
{
    pthread_setcancelstate(before, &before);
}

/* Many programs close stderr before they end (coreutils, to detect a full disk), and daemons close all descriptors.
 * Either may then open another file, which gets the number. So glebe keeps a copy at a number that programs do not use;
 * exec closes it. Before writing to the copy or to 2, glebe checks that it still is the same file. */
static struct {
    bool kept;
    int copy; /* -1: no copy could be made */
    dev_t device;
    ino_t file;
} posix_stderr;

/* The copy's number is below `top`: the kernel's table grows up to the highest number, so it stays at a usual size. */
static void posix_keep_stderr(int top)
{
    enum { ROOM = 16 };
    struct stat file;
    struct rlimit limit;
    int saved = errno;
    if (!posix_stderr.kept && fstat(STDERR_FILENO, &file) == 0) {
        posix_stderr.kept = true;
        posix_stderr.device = file.st_dev;
        posix_stderr.file = file.st_ino;
        posix_stderr.copy = -1;
        if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur > 2 * ROOM) {
            if (limit.rlim_cur < (rlim_t)top)
                top = (int)limit.rlim_cur;
            posix_stderr.copy = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, top - ROOM);
        }
    }
    errno = saved;
}

static bool posix_is_stderr(int file)
{
    struct stat now;
    return posix_stderr.kept && file >= 0 && fstat(file, &now) == 0 && now.st_dev == posix_stderr.device
        && now.st_ino == posix_stderr.file;
}

/* A descriptor of the stderr that was kept; -1 if there is none any more. */
static int posix_stderr_file(void)
{
    int saved = errno, file = posix_is_stderr(posix_stderr.copy) ? posix_stderr.copy : STDERR_FILENO;
    if (!posix_is_stderr(file))
        file = -1;
    errno = saved;
    return file;
}

/* Writes as much as the file takes. Each host has its own. */
static void posix_write(int file, const char *text, size_t bytes);

void gb_port_print(const char *text, size_t bytes)
{
    posix_write(STDERR_FILENO, text, bytes);
}

void gb_port_say(const char *text, size_t bytes)
{
    int file = posix_stderr_file();
    if (file >= 0)
        posix_write(file, text, bytes);
}

/* ---- the process and its threads ---- */

uint32_t gb_port_process(void)
{
    return (uint32_t)getpid();
}

void gb_port_stop_for(uint32_t parent)
{
    if (getppid() == (pid_t)parent)
        kill(getpid(), SIGSTOP);
}

_Noreturn void gb_port_abort(void)
{
    abort();
}

bool gb_port_alone(void)
{
    return false;
}

static pthread_key_t posix_key;
static pthread_once_t posix_once = PTHREAD_ONCE_INIT;
static bool posix_key_ready;
static GB_TLS bool posix_starting; /* this thread is in posix_start, which may allocate (musl's pthread_atfork does) */

/* Installs the system's own handlers of fork. */
static void posix_fork_watch(void);

static void posix_key_end(void *value)
{
    (void)value;
    gb_thread_exit();
}

/* Called at the first malloc, or when the library starts. Prepare handlers of fork run in the reverse order of their
 * registration. The heap's locks must be taken last, because a thread that holds another library's lock may wait for
 * the heap's. So glebe registers its handlers first. */
static void posix_start(void)
{
    posix_starting = true;
    posix_fork_watch();
    posix_key_ready = pthread_key_create(&posix_key, posix_key_end) == 0;
    posix_starting = false;
}

void gb_port_thread_arm(void)
{
    if (posix_starting)
        return; /* the outer call does the rest */
    int saved = errno; /* pthread_setspecific may call malloc, which may fail */
    pthread_once(&posix_once, posix_start);
    if (posix_key_ready)
        pthread_setspecific(posix_key, &posix_key);
    errno = saved;
}

/* `entry` gets the address of `run`. The thread blocks all signals: they belong to the program. */
static bool posix_thread_start(void *(*entry)(void *), void (*run)(void))
{
    static void (*_Atomic held[4])(void); /* a place for each function that is ever started; there are three */
    size_t i = 0;
    for (void (*found)(void);; i++) {
        found = atomic_load(&held[i]);
        if (found == run || (!found && atomic_compare_exchange_strong(&held[i], &found, run)) || found == run)
            break;
    }
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
        ok = pthread_create(&thread, &attributes, entry, &held[i]) == 0;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attributes);
    }
    errno = saved;
    return ok;
}
