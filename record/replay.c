/* glebe-replayer PLAN REPORT: makes the calls of a plan, with the malloc that is preloaded, in the threads of the plan.
 *
 * `glebe replay` starts it under each allocator. plan.h describes the plan.
 *
 * What it models of the program: it writes a byte into each page of a block, once, when the block is allocated or as
 * far as a realloc grows it. If the plan says so, it waits until the recorded time of a call, at most once a
 * millisecond. It does not model what the program reads, or what is no malloc.
 *
 * Its own memory must not count as the allocator's. So it calls malloc for the plan's calls only (and the C library
 * does for threads), reads the plan through buffers, and maps and touches all tables and the first thread's buffer at
 * the start. Buffers of other threads are touched when these start. REPORT gets the process's peak, and what was
 * resident of its own at most:
 *
 *     peak_bytes own_bytes calls
 *
 * Exit status: 0; 3 if an allocation failed that had not failed in the recording; 4 for anything else, with a line. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "plan.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096 /* smaller than any page: no page is left out */

struct turn {
    _Atomic(void *) block;
    _Atomic unsigned turn;
};

static int plan_file;
static void **slots;
static struct turn *shared;
static _Atomic size_t own_bytes, own_bytes_most;
static _Atomic unsigned long calls;
static _Atomic unsigned epoch, left_epoch, running;
static struct timespec begun;

static _Noreturn void give_up(int status, const char *what)
{
    char line[200];
    int length = snprintf(line, sizeof line, "glebe-replayer: %s\n", what);
    if (length < 0 || write(2, line, (size_t)length) < 0)
        _exit(status);
    _exit(status);
}

/* Memory that is no malloc's, all of it resident. */
static void *map_own(size_t bytes)
{
    if (bytes == 0)
        return NULL;
    bytes = (bytes + PAGE - 1) & ~(size_t)(PAGE - 1);
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        give_up(4, "no memory for the replayer's own tables");
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < bytes; i += PAGE)
        ((volatile char *)memory)[i] = 0;
    size_t now = atomic_fetch_add(&own_bytes, bytes) + bytes, most = atomic_load(&own_bytes_most);
    while (now > most && !atomic_compare_exchange_weak(&own_bytes_most, &most, now))
        ;
    return memory;
}

static void futex(_Atomic unsigned *word, int operation, unsigned value)
{
    syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

static void enter(unsigned wanted)
{
    for (unsigned now; (now = atomic_load(&epoch)) != wanted;)
        futex(&epoch, FUTEX_WAIT, now);
}

static void leave(unsigned threads)
{
    if (atomic_fetch_add(&left_epoch, 1) + 1 == threads) {
        atomic_store(&left_epoch, 0);
        atomic_fetch_add(&epoch, 1);
        futex(&epoch, FUTEX_WAKE, INT_MAX);
    }
}

static void touch(void *block, size_t from, size_t to)
{
    volatile char *bytes = block;
    if (from >= to)
        return;
    for (size_t at = from; at < to; at += PAGE)
        bytes[at] = 1;
    bytes[to - 1] = 1;
}

/* The slot's place, once it is this operation's turn. */
static void wait_for(struct turn *slot, unsigned turn)
{
    for (unsigned tries = 0; (atomic_load_explicit(&slot->turn, memory_order_acquire) & 0xffff) != turn; tries++)
        if (tries > 50)
            sched_yield();
}

static void *allocate(const struct plan_op *op, unsigned kind)
{
    void *block = NULL;
    if (kind == PLAN_MALLOC)
        block = malloc(op->bytes);
    else if (kind == PLAN_CALLOC)
        block = calloc(1, op->bytes);
    else if (posix_memalign(&block, (size_t)1 << op->align_log2, op->bytes))
        block = NULL;
    if (!block && op->bytes)
        give_up(3, "an allocation failed");
    touch(block, 0, op->bytes);
    return block;
}

static void *resize(const struct plan_op *op, void *block)
{
    void *now = realloc(block, op->bytes);
    if (!now)
        give_up(3, "a realloc failed");
    touch(now, op->old, op->bytes);
    return now;
}

/* Waits until so many nanoseconds after the replay began. */
static void wait_until(uint64_t ns)
{
    uint64_t nanoseconds = (uint64_t)begun.tv_nsec + ns;
    struct timespec then = {.tv_sec = begun.tv_sec + (time_t)(nanoseconds / 1000000000u),
        .tv_nsec = (long)(nanoseconds % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &then, NULL) == EINTR)
        ;
}

static void start(uint64_t offset);

/* One operation. False at the end. */
static bool perform(const struct plan_op *op)
{
    unsigned kind = op->kind & (PLAN_SHARED - 1);
    if (kind == PLAN_SPAWN) {
        start(op->bytes);
        return true;
    }
    if (kind == PLAN_ENTER || kind == PLAN_LEAVE) {
        if (kind == PLAN_ENTER)
            enter((unsigned)op->bytes);
        else
            leave((unsigned)op->old);
        return true;
    }
    if (kind == PLAN_WAIT) {
        wait_until(op->bytes);
        return true;
    }
    if (kind < PLAN_MALLOC || kind > PLAN_FREE)
        return false;
    if (op->kind & PLAN_SHARED) {
        struct turn *slot = &shared[op->slot];
        wait_for(slot, op->turn);
        void *block = atomic_load_explicit(&slot->block, memory_order_relaxed);
        if (kind == PLAN_FREE)
            free(block);
        else
            atomic_store_explicit(&slot->block, kind == PLAN_REALLOC ? resize(op, block) : allocate(op, kind),
                memory_order_relaxed);
        atomic_fetch_add_explicit(&slot->turn, 1, memory_order_release);
    } else if (kind == PLAN_FREE) {
        free(slots[op->slot]);
    } else {
        slots[op->slot] = kind == PLAN_REALLOC ? resize(op, slots[op->slot]) : allocate(op, kind);
    }
    return true;
}

static void run(uint64_t offset, struct plan_chunk *chunk)
{
    unsigned long made = 0;
    while (offset) {
        char *into = (char *)chunk;
        for (size_t got = 0; got < sizeof *chunk;) {
            ssize_t n = pread(plan_file, into + got, sizeof *chunk - got, (off_t)(offset + got));
            if (n <= 0)
                give_up(4, "the plan is cut off");
            got += (size_t)n;
        }
        for (uint64_t i = 0; i < chunk->count && i < PLAN_CHUNK_OPS; i++)
            if (!perform(&chunk->ops[i]))
                give_up(4, "the plan is damaged");
        made += chunk->count;
        offset = chunk->next;
    }
    atomic_fetch_add(&calls, made);
}

static void *thread_main(void *first)
{
    struct plan_chunk *chunk = first;
    run(chunk->next, chunk);
    munmap(chunk, sizeof *chunk);
    atomic_fetch_sub(&own_bytes, sizeof *chunk);
    atomic_fetch_sub(&running, 1);
    futex(&running, FUTEX_WAKE, INT_MAX);
    return NULL;
}

static void start(uint64_t offset)
{
    struct plan_chunk *chunk = map_own(sizeof *chunk);
    chunk->next = offset;
    atomic_fetch_add(&running, 1);
    pthread_t thread;
    if (pthread_create(&thread, NULL, thread_main, chunk))
        give_up(4, "a thread cannot be started");
    pthread_detach(thread);
}

/* The process's peak, in bytes. */
static unsigned long peak_bytes(void)
{
    static char text[8192];
    int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t n = file < 0 ? -1 : read(file, text, sizeof text - 1);
    const char *line = n > 0 ? strstr(text, "VmHWM:") : NULL;
    if (!line)
        give_up(4, "/proc/self/status has no VmHWM");
    return strtoul(line + 6, NULL, 10) * 1024;
}

int main(int count, char **words)
{
    struct plan_header header;
    if (count != 3)
        give_up(4, "wants a plan and a report; glebe replay starts it");
    plan_file = open(words[1], O_RDONLY | O_CLOEXEC);
    if (pread(plan_file, &header, sizeof header, 0) != sizeof header || header.magic != PLAN_MAGIC)
        give_up(4, "that is no plan");
    slots = map_own(header.slots * sizeof *slots);
    shared = map_own(header.shared_slots * sizeof *shared);
    struct plan_chunk *chunk = map_own(sizeof *chunk);
    clock_gettime(CLOCK_MONOTONIC, &begun);
    run(header.first, chunk);
    for (unsigned now; (now = atomic_load(&running)) != 0;)
        futex(&running, FUTEX_WAIT, now);

    char line[120];
    int length = snprintf(line, sizeof line, "%lu %zu %lu\n", peak_bytes(), atomic_load(&own_bytes_most),
        atomic_load(&calls));
    int report = open(words[2], O_WRONLY | O_TRUNC | O_CLOEXEC);
    if (length < 0 || write(report, line, (size_t)length) != length)
        give_up(4, "the report cannot be written");
    return 0;
}
