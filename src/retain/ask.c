/* A profile that another process asks for: `glebe profile PID`, which has the rights of a debugger. It writes into this
 * process's memory, and reads the samples from there; no signal, no file, and no stop.
 *
 *     the command                         this process
 *     heaps look sampled, so that requests tick
 *     mean, state = DUE          -->      the next tick of any thread starts a thread of glebe's      STARTS
 *                                         it starts the sampler                                       RUNS, or FAILED
 *     beat += 1 at times         -->      it waits; without a beat for ASK_LOST_MS it ends too
 *     state = STOP               -->      it stops the sampler, unless the sampler ran before         DONE
 *
 * The thread exists since a start of the sampler may open a library, which no request can do. The command makes the
 * compares of the fast paths fail, as the sampler does, since a program that gets a warm block each time never ticks. A
 * start of the sampler, or the command, sets them again. A process that never allocates never ticks. In the child of a
 * fork there is no such thread, so the next tick there stops the sampler. */
#include "retain.h"

#if GB_SAMPLES

enum { ASK_BEAT_MS = 50, ASK_LOST_MS = 10000 };

static void ask_run(void)
{
    gb_ask *ask = &gb_the.ask;
    int error = gb_sampler_start(ask->mean_bytes ? ask->mean_bytes : GB_SAMPLE_BYTES, true);
    ask->error = (uint32_t)error;
    ask->ours = error == 0;
    bool runs = error == 0 || error == EBUSY;
    gb_store(&ask->state, runs ? GB_ASK_RUNS : GB_ASK_FAILED);
    uint32_t beat = gb_load_relaxed(&ask->beat), since = gb_port_now_ms();
    while (runs && gb_load(&ask->state) == GB_ASK_RUNS) {
        gb_port_wait(&ask->state, GB_ASK_RUNS, ASK_BEAT_MS);
        uint32_t now = gb_port_now_ms(), seen = gb_load_relaxed(&ask->beat);
        if (seen != beat) {
            beat = seen;
            since = now;
        } else if (gb_ms_since(now, since) >= ASK_LOST_MS)
            break;
    }
    if (ask->ours)
        gb_sampler_stop();
    if (runs)
        gb_store(&ask->state, GB_ASK_DONE);
}

/* Called at a tick. Starting a thread may allocate, so this thread leaves its heap meanwhile, as in background_late. */
void gb_ask_tick(void)
{
    gb_ask *ask = &gb_the.ask;
    uint32_t due = GB_ASK_DUE, lost = GB_ASK_LOST;
    if (gb_thread_away() || gb_lock_forking())
        return;
    if (atomic_compare_exchange_strong(&ask->state, &lost, GB_ASK_NONE)) {
        gb_sampler_stop();
        return;
    }
    if (!atomic_compare_exchange_strong(&ask->state, &due, GB_ASK_STARTS))
        return;
    glebe_heap *self = gb_thread_leave();
    if (!gb_port_thread_start(ask_run)) {
        ask->error = EAGAIN;
        gb_store(&ask->state, GB_ASK_FAILED);
    }
    gb_thread_return(self);
}

void gb_ask_forked(void)
{
    uint32_t state = gb_load(&gb_the.ask.state);
    bool sampled = gb_the.ask.ours && (state == GB_ASK_RUNS || state == GB_ASK_STOP);
    gb_store(&gb_the.ask.state, sampled ? GB_ASK_LOST : GB_ASK_NONE);
}

#endif
