/* The file that the recorder writes while a program runs: one for each process.
 *
 *     +--------+----------+----------+----------+----------+--
 *     | header | block    | block    | block    | block    | ...      each block RAW_BLOCK_BYTES, the header one page
 *     +--------+----------+----------+----------+----------+--
 *                 ^ a slot: mapped, and being filled by one thread        ^ written whole, when a slot was full
 *
 * Every block begins with a raw_block; records follow until a word that is zero, or until `used_bytes`. A slot is
 * memory that the file shares, so what a thread recorded is in the file as soon as it is stored, and stays there when a
 * signal kills the process. A full slot is appended to the file and filled again, so a thread always touches the
 * same pages. If a signal kills the process between the two steps, the file has the block twice, with the same thread
 * and number.
 *
 * A record is 2, 3 or 5 words of 64 bits. The first is never zero, and is stored last:
 *
 *     word 0, bits 0-7     raw_kind           bits 8-15   log2 of the alignment asked for, or 0
 *             bits 16-63   moment             see below
 *     ALLOCATE...          address, bytes                                   address 0: the call failed
 *     REALLOCATE           old address, new address, bytes, second moment   new address 0: the call failed
 *     FREE                 address
 *     TIME                 CLOCK_MONOTONIC in ns, at most RAW_CLOCK_CALLS calls old
 *
 * Moments put the records of all threads in order. Each free takes the next number from a counter of the process before
 * it frees; each allocation reads that counter after it has its block. So the free of an address has a smaller moment
 * than the next allocation of that address, and of equal moments the allocation was first. A realloc frees at its first
 * moment and allocates at its second. */
#ifndef GLEBE_RECORD_RAW_H
#define GLEBE_RECORD_RAW_H

#include <stdint.h>

#define RAW_MAGIC 0x0031574152424c47u /* "GLBRAW1" */
#define RAW_BLOCK_MAGIC 0x4b4c4247u   /* "GBLK" */
#define RAW_HEADER_BYTES 4096
#define RAW_BLOCK_BYTES (64 << 10)
#define RAW_COMMAND_BYTES 3072
#define RAW_CLOCK_CALLS 16

enum raw_kind {
    RAW_END,
    RAW_MALLOC,
    RAW_CALLOC,
    RAW_ALIGNED,
    RAW_REALLOCATE,
    RAW_FREE,
    RAW_TIME,
};

struct raw_header {
    uint64_t magic;
    uint32_t version; /* 1 */
    uint32_t block_bytes;
    uint64_t process;
    uint64_t parent;
    uint64_t date_ns;  /* CLOCK_REALTIME */
    uint64_t start_ns; /* CLOCK_MONOTONIC */
    uint32_t stopped;  /* the errno that ended the recording before the program ended; 0: none */
    uint32_t command_bytes;
    char command[RAW_COMMAND_BYTES]; /* as /proc/self/cmdline: each word ends in a zero byte */
};

struct raw_block {
    uint32_t magic;
    uint32_t thread;     /* from 0, in the order of first calls */
    uint64_t number;     /* of the thread's blocks, from 0 */
    uint64_t used_bytes; /* with this struct; 0 in a slot: up to a zero word */
    uint64_t next;       /* the recorder's own */
};

#endif
