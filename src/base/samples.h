/* What a heap profile has: samples, the stacks that allocated them, and their sums. sample.c has the picture. */
#ifndef GB_SAMPLES_H
#define GB_SAMPLES_H

#include "config.h"

#include <stddef.h>
#include <stdint.h>

/* A sampled block that is in use. */
typedef struct gb_sample {
    uintptr_t block;
    uint64_t objects; /* how many blocks it stands for, in 1/65536 */
    uint64_t bytes; /* and how many bytes */
    uint64_t born; /* which sample it was, counted from 1 */
    uint64_t born_ns; /* and when */
    uint32_t site;
    uint32_t next; /* of the same hash, or of free records */
} gb_sample;

/* One caller of a stack: the tree of all stacks has its root at number 0. */
typedef struct gb_frame {
    uintptr_t address;
    uint32_t caller; /* the frame that called it */
    uint32_t next; /* of the same hash */
    uint32_t site; /* of the stack that ends here; 0: none */
    uint32_t label; /* 0: this is a caller; else a label of the thread, without an address (heap/label.c) */
} gb_frame;

/* A label of threads: each text has one record. */
typedef struct gb_label {
    uint32_t next; /* of the same hash */
    char key[GB_LABEL_KEY_BYTES], value[GB_LABEL_VALUE_BYTES];
} gb_label;

typedef struct gb_weight {
    uint64_t objects; /* in 1/65536 */
    uint64_t bytes;
} gb_weight;

/* How many bytes lived how long before they were freed. The first class is below 10 us, the next ones below 30 us, 100
 * us, 300 us, and so on to 1000 s; the last has all others. */
typedef struct gb_lifetimes {
    uint64_t bytes[GB_LIFETIMES];
} gb_lifetimes;

/* What was allocated by one stack. */
typedef struct gb_site {
    gb_weight allocated, live;
    gb_weight peak; /* what was live at the peak number `peak_number`, if that is the last peak; else `live` was */
    uint64_t peak_number;
    gb_lifetimes freed;
    uint32_t frame; /* the innermost caller */
} gb_site;

/* Records by number. Number 0 is no record. */
typedef struct gb_records {
    char *chunks[GB_SAMPLES ? GB_SAMPLE_CHUNKS : 1];
    uint32_t count;
} gb_records;

/* Guarded blocks: guard.c has the picture. The sampler's lock guards them. */
typedef struct gb_guard gb_guard;
typedef struct gb_guards {
    uintptr_t base; /* of the pages */
    gb_guard *slots;
    uint32_t count; /* of slots; 0: there are none */
    _Atomic uint32_t used;
    uint32_t taken; /* so far */
    uint64_t freed; /* so far */
    _Atomic size_t every_bytes; /* bytes between two guarded blocks, about; 0: none are guarded */
    _Atomic uint32_t spells; /* a heap is sampled in one of so many spells between its ticks; else 1 */
    int64_t left; /* bytes before the next guarded block, while a profile is taken */
} gb_guards;

#endif
