/* The file of a process, and the slots in it. raw.h describes the file.
 *
 *     stream_more ── no file yet (first call, or the child of a fork) ──▶ begin: create it, map its header
 *         │
 *         ├── no slot ──▶ take: one that a thread left, or a new block of the file, allocated and mapped
 *         └── slot full ──▶ flush: append it to the file, clear it
 *
 * Rules, since all this runs inside another program's malloc:
 *
 *   1. Nothing here allocates, and system calls are made by syscall(), which is no point of cancellation.
 *   2. errno is kept.
 *   3. A mapped block was allocated in its file system first, so that a full disk is an error of a call and never a
 *      SIGBUS. A limit on file sizes is checked first, since it would send SIGXFSZ.
 *   4. The program may close every descriptor, and open others of the same number. So the file is compared with device
 *      and inode before each write, and opened again by its path if it is not ours.
 *   5. What cannot be recorded is left out: `off` is set, the header says why, and the program goes on.
 *
 * A lock is held only here. A fork's child has a cleared `shared`, and so a free lock. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../src/debug/errors.h"
#include "stream.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define VARIABLE "GLEBE_TOOL_RECORD" /* the directory of the raw files, set by `glebe record` */
#define FILES_MOST 1000              /* that one process id may have, by exec and by reuse */
#define DESCRIPTOR_LEAST 500         /* out of the way of programs that expect small ones */

struct shared *stream_shared;
_Thread_local struct stream stream_self;

static char directory[4000]; /* survives a fork and clearenv */
static pthread_key_t key;
static bool has_key;

extern char **environ;

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now = {0};
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- the file ---- */

static void lock(struct shared *shared)
{
    while (atomic_exchange_explicit(&shared->lock, 1, memory_order_acquire))
        sched_yield();
}

static void unlock(struct shared *shared)
{
    atomic_store_explicit(&shared->lock, 0, memory_order_release);
}

static void stop(struct shared *shared, int error)
{
    if (shared->header && !shared->header->stopped)
        shared->header->stopped = error ? (uint32_t)error : EIO;
    atomic_store_explicit(&shared->off, 1, memory_order_relaxed);
}

static bool is_ours(const struct shared *shared, int file)
{
    struct stat seen;
    return file >= 0 && fstat(file, &seen) == 0 && (uint64_t)seen.st_dev == shared->device &&
           (uint64_t)seen.st_ino == shared->inode;
}

/* Moves a descriptor away from the small numbers. */
static int keep(int file)
{
    if (file < 0)
        return file;
    int high = (int)syscall(SYS_fcntl, file, F_DUPFD_CLOEXEC, DESCRIPTOR_LEAST);
    if (high < 0)
        return file;
    syscall(SYS_close, file);
    return high;
}

static int file_of(struct shared *shared)
{
    if (!is_ours(shared, shared->file)) {
        shared->file = keep((int)syscall(SYS_openat, AT_FDCWD, shared->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0));
        if (!is_ours(shared, shared->file))
            return -1;
    }
    return shared->file;
}

/* True if the file may have this many bytes; else errno says why not. */
static bool within_limit(uint64_t bytes)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && bytes > limit.rlim_cur) {
        errno = EFBIG;
        return false;
    }
    return true;
}

static bool write_at(int file, const void *data, size_t bytes, uint64_t offset)
{
    const char *rest = data;
    while (bytes > 0) {
        ssize_t n = (ssize_t)syscall(SYS_pwrite64, file, rest, bytes, (off_t)offset);
        if (n <= 0 && !(n < 0 && errno == EINTR))
            return false;
        if (n > 0) {
            rest += n;
            offset += (uint64_t)n;
            bytes -= (size_t)n;
        }
    }
    return true;
}

/* Allocates a part of the file and maps it. NULL with errno if it cannot be had. */
static void *map_part(int file, uint64_t offset, size_t bytes)
{
    static const char zeros[4096];
    if (!within_limit(offset + bytes))
        return NULL;
    if (syscall(SYS_fallocate, file, 0, (off_t)offset, (off_t)bytes)) {
        if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)
            return NULL;
        for (size_t done = 0; done < bytes; done += sizeof zeros) /* a file system without fallocate */
            if (!write_at(file, zeros, sizeof zeros, offset + done))
                return NULL;
    }
    void *part = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)offset);
    return part == MAP_FAILED ? NULL : part;
}

static void complain(const char *path, int error)
{
    char line[4400];
    const char *why = gb_error_text(error);
    int length = snprintf(line, sizeof line, "glebe: process %ld is not recorded: %s: error %d (%s)\n", (long)getpid(),
        path, error, why);
    if (length > 0)
        syscall(SYS_write, 2, line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
}

static void describe(struct raw_header *header)
{
    header->version = 1;
    header->block_bytes = RAW_BLOCK_BYTES;
    header->process = (uint64_t)getpid();
    header->parent = (uint64_t)getppid();
    header->date_ns = clock_ns(CLOCK_REALTIME);
    header->start_ns = clock_ns(CLOCK_MONOTONIC);
    int file = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY | O_CLOEXEC, 0);
    if (file >= 0) {
        long n = syscall(SYS_read, file, header->command, sizeof header->command);
        header->command_bytes = n > 0 ? (uint32_t)n : 0;
        syscall(SYS_close, file);
    }
    atomic_signal_fence(memory_order_release);
    *(volatile uint64_t *)&header->magic = RAW_MAGIC;
}

/* Creates this process's file. Called with the lock. */
static void begin(struct shared *shared)
{
    int file = -1;
    for (int n = 1; n <= FILES_MOST && file < 0; n++) {
        if (snprintf(shared->path, sizeof shared->path, "%s/%ld-%d", directory, (long)getpid(), n) <= 0)
            break;
        const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
        file = (int)syscall(SYS_openat, AT_FDCWD, shared->path, flags, 0600);
        if (file < 0 && errno != EEXIST)
            break;
    }
    struct stat seen;
    struct raw_header *header = NULL;
    if (file >= 0 && fstat(file, &seen) == 0) {
        shared->device = (uint64_t)seen.st_dev;
        shared->inode = (uint64_t)seen.st_ino;
        header = map_part(file, 0, RAW_HEADER_BYTES);
    }
    int error = errno;
    if (header) {
        describe(header);
        shared->file = keep(file);
        shared->header = header;
    } else {
        complain(shared->path, error);
        if (file >= 0) {
            syscall(SYS_unlinkat, AT_FDCWD, shared->path, 0);
            syscall(SYS_close, file);
        }
        atomic_store(&shared->off, 1);
    }
    atomic_store(&shared->process, (unsigned long)clock_ns(CLOCK_MONOTONIC) | 1);
}

/* ---- slots ---- */

static uint64_t *records_of(struct raw_block *slot)
{
    return (uint64_t *)(slot + 1);
}

static uint64_t *end_of(struct raw_block *slot)
{
    return (uint64_t *)((char *)slot + RAW_BLOCK_BYTES);
}

/* Appends the slot's block to the file, and empties the slot. Called with the lock. */
static bool flush(struct shared *shared, struct raw_block *slot, uint64_t *cursor)
{
    uint64_t bytes = (uint64_t)((char *)cursor - (char *)slot);
    uint64_t offset = RAW_HEADER_BYTES + shared->blocks * RAW_BLOCK_BYTES;
    int file = file_of(shared);
    slot->used_bytes = bytes;
    if (file < 0 || !within_limit(offset + bytes) || !write_at(file, slot, bytes, offset)) {
        slot->used_bytes = 0;
        return false;
    }
    shared->blocks++;
    *(volatile uint64_t *)records_of(slot) = RAW_END; /* from here on the appended block is the longer one */
    memset(records_of(slot), 0, (size_t)bytes - sizeof *slot);
    slot->used_bytes = 0;
    slot->number++;
    return true;
}

/* The first free word of a slot that a thread left. */
static uint64_t *cursor_of(struct raw_block *slot)
{
    static const unsigned char words[] = {
        [RAW_MALLOC] = 3, [RAW_CALLOC] = 3, [RAW_ALIGNED] = 3, [RAW_REALLOCATE] = 5, [RAW_FREE] = 2, [RAW_TIME] = 2};
    uint64_t *cursor = records_of(slot);
    while (cursor < end_of(slot) && *cursor != RAW_END)
        cursor += words[*cursor & 7];
    return cursor;
}

static struct raw_block *take(struct shared *shared, const struct stream *self)
{
    struct raw_block *slot = shared->unused;
    if (slot) {
        uint64_t *cursor = cursor_of(slot);
        if (cursor != records_of(slot) && !flush(shared, slot, cursor))
            return NULL;
        shared->unused = (struct raw_block *)(uintptr_t)slot->next;
    } else {
        int file = file_of(shared);
        slot = file < 0 ? NULL : map_part(file, RAW_HEADER_BYTES + shared->blocks * RAW_BLOCK_BYTES, RAW_BLOCK_BYTES);
        if (!slot)
            return NULL;
        shared->blocks++;
    }
    slot->next = 0;
    slot->thread = self->thread;
    slot->number = self->number;
    slot->magic = RAW_BLOCK_MAGIC;
    return slot;
}

static void leave(struct stream *self)
{
    struct shared *shared = stream_shared;
    if (!self->slot || atomic_load(&shared->process) != self->process)
        return;
    lock(shared);
    self->number = self->slot->number + 1;
    self->slot->next = (uint64_t)(uintptr_t)shared->unused;
    shared->unused = self->slot;
    unlock(shared);
    self->slot = NULL;
    self->cursor = self->end = NULL;
}

/* The thread ends. Destructors that come later may still free: each such record takes a slot and leaves it. */
static void thread_ends(void *self)
{
    struct stream *stream = self;
    leave(stream);
    stream->late = true;
}

void stream_late(struct stream *self)
{
    leave(self);
}

bool stream_more(struct stream *self, unsigned words)
{
    struct shared *shared = stream_shared;
    if (!shared || self->busy || atomic_load_explicit(&shared->off, memory_order_relaxed))
        return false;
    (void)words; /* a slot has room for any record */
    int error = errno;
    self->busy = true;
    lock(shared);
    if (atomic_load(&shared->process) == 0)
        begin(shared);
    unsigned long process = atomic_load(&shared->process);
    bool fresh = self->process != process, arrived = fresh && self->process == 0;
    if (fresh) {
        self->slot = NULL;
        self->number = 0;
        self->process = process;
        self->thread = atomic_fetch_add(&shared->threads, 1);
    }
    bool good = !atomic_load(&shared->off);
    if (good && self->slot)
        good = flush(shared, self->slot, self->cursor);
    else if (good)
        good = (self->slot = take(shared, self)) != NULL;
    if (good) {
        self->cursor = records_of(self->slot);
        self->end = end_of(self->slot);
        self->clock_in = 0;
    } else {
        stop(shared, errno);
        self->cursor = self->end = NULL;
    }
    unlock(shared);
    if (arrived && has_key)
        pthread_setspecific(key, self); /* may allocate: after the lock */
    self->busy = false;
    errno = error;
    return good;
}

void stream_clock(struct stream *self)
{
    uint64_t *record = self->cursor;
    self->cursor = record + 2;
    self->clock_in = RAW_CLOCK_CALLS - 1;
    record[1] = clock_ns(CLOCK_MONOTONIC_COARSE);
    stream_store(record, RAW_TIME, 0, stream_moment());
}

/* Runs when the library is loaded; calls before it are not recorded. */
__attribute__((constructor)) static void stream_start(void)
{
    const char *value = getenv(VARIABLE);
    if (sizeof(void *) < 8) /* a system call's offsets take two words there */
        return;
    if (!value || value[0] != '/' || strlen(value) >= sizeof directory)
        return;
    memcpy(directory, value, strlen(value) + 1);
    struct shared *page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return;
    if (madvise(page, sizeof *page, MADV_WIPEONFORK)) /* an old kernel */
        return;
    has_key = pthread_key_create(&key, thread_ends) == 0;
    stream_shared = page;
}
