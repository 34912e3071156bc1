/* The plan that glebe-replayer carries out: a trace, made ready by `glebe replay` so that carrying it out needs no
 * memory but two tables and a buffer for each thread.
 *
 *     plan_header | chunk | chunk | ...          the chunks of a thread are linked by their offsets
 *
 * A block's pointer is in a slot. A block that one thread allocates, resizes and frees has a slot of that thread,
 * without synchronisation. Any other has a shared slot with a turn: an operation waits for its turn, and then sets the
 * next one. So a free waits for its allocation, whatever thread makes it.
 *
 * With several threads, the operations are in epochs of about PLAN_EPOCH_CALLS in recorded order. A thread enters an
 * epoch when all threads have left the one before. Within an epoch threads run freely. */
#ifndef GLEBE_RECORD_PLAN_H
#define GLEBE_RECORD_PLAN_H

#include <stdint.h>

#define PLAN_MAGIC 0x314e414c50424c47u /* "GLBPLAN1" */
#define PLAN_CHUNK_BYTES 16384
#define PLAN_CHUNK_OPS ((PLAN_CHUNK_BYTES - 16) / 24)

enum plan_kind {
    PLAN_END,
    PLAN_MALLOC,
    PLAN_CALLOC,
    PLAN_ALIGNED,
    PLAN_REALLOC,
    PLAN_FREE,
    PLAN_SPAWN, /* bytes: offset of the new thread's first chunk */
    PLAN_ENTER, /* bytes: the epoch */
    PLAN_LEAVE, /* bytes: the epoch, old: how many threads leave it */
    PLAN_WAIT,  /* bytes: nanoseconds since the replay began */
    PLAN_SHARED = 16, /* added to a call whose slot is shared */
};

struct plan_header {
    uint64_t magic;
    uint64_t first; /* offset of the first thread's first chunk */
    uint64_t slots;
    uint64_t shared_slots;
    uint64_t threads; /* the most at once is not known: all of them */
};

struct plan_op {
    uint8_t kind;
    uint8_t align_log2;
    uint16_t turn; /* of a shared slot */
    uint32_t slot;
    uint64_t bytes;
    uint64_t old; /* a realloc's size before */
};

struct plan_chunk {
    uint64_t next; /* offset; 0: none */
    uint64_t count;
    struct plan_op ops[PLAN_CHUNK_OPS];
};

#endif
