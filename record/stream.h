/* Streams: where each thread puts its records. stream.c has the file below them. */
#ifndef GLEBE_RECORD_STREAM_H
#define GLEBE_RECORD_STREAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "raw.h"

#pragma GCC visibility push(hidden)

/* A thread's stream. `cursor` to `end` is what is left of its slot. */
struct stream {
    uint64_t *cursor, *end;
    unsigned long process; /* stream_process of the process that it belongs to */
    struct raw_block *slot;
    uint64_t number;   /* of its next slot's first block */
    unsigned clock_in; /* records until the clock is read again */
    uint32_t thread;
    bool busy; /* inside stream.c: what is allocated now is the recorder's */
    bool late; /* the thread's destructor has run */
};

/* What a fork must not hand on: a page that the kernel clears in the child, whichever system call made it. */
struct shared {
    _Atomic unsigned long process; /* 0: this process has no file yet */
    _Atomic unsigned long moment;
    _Atomic unsigned char off; /* nothing is recorded (any more) */
    _Atomic unsigned char lock;
    _Atomic uint32_t threads;
    int file;
    uint64_t device, inode;
    struct raw_header *header;
    uint64_t blocks; /* in the file */
    struct raw_block *unused; /* slots of threads that ended */
    char path[4096];
};

extern struct shared *stream_shared;
extern _Thread_local struct stream stream_self __attribute__((tls_model("initial-exec")));

/* Makes room for `words` of the calling thread. False if nothing can be recorded now. Keeps errno. */
bool stream_more(struct stream *self, unsigned words);
/* Stores the time. */
void stream_clock(struct stream *self);

static inline unsigned long stream_moment(void)
{
    struct shared *shared = stream_shared;
    return shared ? atomic_load_explicit(&shared->moment, memory_order_acquire) : 0;
}

/* The next moment, which no other free has. */
static inline unsigned long stream_next_moment(void)
{
    struct shared *shared = stream_shared;
    return shared ? atomic_fetch_add_explicit(&shared->moment, 1, memory_order_acq_rel) : 0;
}

/* A place for a record of `words`; NULL if it is not recorded. The caller stores the other words before the first. */
static inline uint64_t *stream_reserve(struct stream *self, unsigned words)
{
    struct shared *shared = stream_shared;
    bool stale = !shared || atomic_load_explicit(&shared->process, memory_order_relaxed) != self->process;
    if (__builtin_expect(stale || (size_t)(self->end - self->cursor) < words + 2, 0) && !stream_more(self, words + 2))
        return NULL;
    if (__builtin_expect(self->clock_in-- == 0, 0))
        stream_clock(self);
    uint64_t *record = self->cursor;
    self->cursor = record + words;
    return record;
}

/* The same without a call, for most records: NULL, with nothing changed, where there is more to do. A thread whose
 * destructor has run holds no slot, so it is none of these. `shared` is stream_shared. */
static inline uint64_t *stream_quick(struct stream *self, struct shared *shared, unsigned words)
{
    if (__builtin_expect(!shared || atomic_load_explicit(&shared->process, memory_order_relaxed) != self->process
                || (size_t)(self->end - self->cursor) < words + 2 || self->clock_in == 0,
            0))
        return NULL;
    self->clock_in--;
    uint64_t *record = self->cursor;
    self->cursor = record + words;
    return record;
}

static inline void stream_store(uint64_t *record, enum raw_kind kind, unsigned align_log2, unsigned long moment)
{
    uint64_t first = (uint64_t)kind | (uint64_t)align_log2 << 8 | (uint64_t)moment << 16;
    atomic_signal_fence(memory_order_release); /* a killed process leaves whole records */
    *(volatile uint64_t *)record = first;
}

/* For a thread that gives its slot back after every record. */
void stream_late(struct stream *self);

static inline void stream_done(struct stream *self)
{
    if (__builtin_expect(self->late, 0))
        stream_late(self);
}

#pragma GCC visibility pop

#endif
