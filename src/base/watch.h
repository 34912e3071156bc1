/* What slow requests look at besides their own work: the limits, and a profile that another process asks for. */
#ifndef GB_WATCH_H
#define GB_WATCH_H

#include "bits.h"

/* When the process looks at its limits, to write a snapshot of itself: debug/snapshot.c. */
typedef struct gb_watch {
    void (*look)(size_t failed_bytes); /* NULL: there is no snapshot to write */
    _Atomic bool due; /* the next slow request calls `look` */
    _Atomic size_t from_not; /* complement of the bytes in use from which a look is due; 0: none */
    _Atomic uint32_t looked_ms;
} gb_watch;

/* A profile that another process asks for: ask.c. */
enum gb_ask_state {
    GB_ASK_NONE,
    GB_ASK_DUE, /* the other process wrote this */
    GB_ASK_STARTS,
    GB_ASK_RUNS,
    GB_ASK_STOP, /* the other process wrote this */
    GB_ASK_DONE,
    GB_ASK_FAILED, /* `error` says why */
    GB_ASK_LOST, /* this is the child of a fork: the next tick stops the sampler */
};
typedef struct gb_ask {
    _Atomic uint32_t state;
    _Atomic uint32_t beat; /* the other process increments it */
    uint32_t error; /* of the start */
    uint32_t ours; /* the sampler did not run before */
    size_t mean_bytes; /* 0: the default */
} gb_ask;

#endif
