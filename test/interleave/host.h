/* Shared by the cases and host.c: threads with their heaps and the blocks that they hold, all part of the snapshot. */
#ifndef IL_HOST_H
#define IL_HOST_H

#include "../../src/core.h"
#include "engine.h"

enum { HELD = 24, LOCALS = 128 };

typedef struct world {
    char locals[IL_THREADS + 1][LOCALS]; /* thread-local variables of each thread; the last row is the setup's */
    void *held[IL_THREADS][HELD]; /* blocks in use, by the thread that will free them */
    uint32_t bytes[IL_THREADS][HELD];
    uint64_t mark[IL_THREADS][HELD]; /* the marks at both ends of each block */
    uint32_t count[IL_THREADS];
    uint64_t toy[8]; /* for the engine's own test */
    uint32_t now_ms;
    uint32_t turn; /* the real lock's test: how often and by which thread it was held */
    uint32_t inside;
} world;

extern world the_world;

/* In a setup: thread-local variables as another thread left them, or as a new thread finds them. */
void host_become(uint32_t from, uint32_t to);
void host_become_new(void);

/* A plain access by the subject's rules, checked for races. */
void host_touch(const volatile void *address, size_t bytes, bool write);
/* A step of the program's own, to hand data from thread to thread. */
uint64_t host_acquire(_Atomic uint64_t *object);
void host_release(_Atomic uint64_t *object, uint64_t value);
/* Runs the function that gb_port_thread_start got. */
void host_started(void);

/* A number for the state of the heap and of the threads' blocks, and nothing else. */
uint64_t host_state(void);

#endif
