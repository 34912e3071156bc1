/* The scheduler: runs a case again and again, in a different order each time, until no different order is left.
 *
 * Threads are coroutines in one OS thread. The source under test is compiled with -fsanitize=thread, but linked with
 * hooks.c in place of that sanitizer's library. So the compiler puts a call at every access of the unchanged source.
 * Before each atomic operation a thread announces the operation and its object, and hands over:
 *
 *     step   0         1          2          3           a node each: each thread's next step, the thread chosen,
 *          A:load -> A:cas  -> B:load  -> A:cas          threads to try too (`backtrack`), threads tried (`done`),
 *             |                   |                      and threads whose next step need not be tried here (`sleep`)
 *             +-> B:load -> ...   +-> B:cas -> ...
 *
 * An execution starts from the snapshot that the setup left and repeats the choices of the nodes on the stack. Then it
 * continues by itself, preferring to stay in one thread. When it has ended, the engine changes the deepest node with
 * something left to try, and runs again. No state is stored but the start.
 *
 * Not every order is worth running: steps on different objects commute. A step may depend on an earlier one of another
 * thread, with nothing in between that orders the two. Then the earlier node must also try to let the later thread (or
 * a thread that has to go before it) go first. This is dynamic partial-order reduction with source sets, and with sleep
 * sets against running one order twice (Abdulla, Aronis, Jonsson, Sagonas: Optimal dynamic partial order reduction,
 * POPL 2014). Vector clocks keep the order among steps. The search finds every state at every thread's end, and every
 * failure of a check at the end or of an assertion in a thread. Per-step checks see one order of each class, so they
 * must not compare unrelated objects.
 *
 * Between two atomic operations a thread is not interrupted. That loses nothing if its plain accesses are in no race:
 * so races.c looks for races in every execution, by the memory orders that the source names. One thing is out of reach:
 * here a load always sees the latest store. A machine may show an older value, or two threads may disagree on the order
 * of independent stores. These runs do not show that the source is correct then. They do show that data is handed over
 * by a release and an acquire. */
#undef _FORTIFY_SOURCE /* its longjmp rejects jumps between stacks */
#define _GNU_SOURCE
#include "engine.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { STACK_BYTES = 256 << 10, OBJECTS = 4096, MAIN = IL_THREADS };

typedef struct pending {
    const volatile void *object;
    enum il_op op;
} pending;

typedef struct node {
    pending next[IL_THREADS]; /* of the threads that have not ended */
    uint8_t enabled, backtrack, done, sleep; /* sets of threads */
    uint8_t thread, choice, choices;
    enum il_op op; /* what the step turned out to be */
    const volatile void *object;
    const void *pc;
    uint32_t clock[IL_THREADS]; /* after the step */
} node;

typedef struct object {
    const volatile void *address;
    uint64_t execution; /* the execution of this entry */
    uint32_t wrote[IL_THREADS], seen[IL_THREADS]; /* clocks of its last write; of that write and all reads since */
} object;

static const il_case *the_case;
static node nodes[IL_STEPS];
static uint32_t fixed, step; /* nodes that repeat an earlier execution; nodes so far */
static uint64_t execution, exploration, states, digest;
static object objects[OBJECTS];
static uint32_t clocks[IL_THREADS][IL_THREADS];
static uint8_t ended, blocked;
static const volatile void *blocked_on[IL_THREADS];
static int failures_left, failures_most;
static uint32_t current = MAIN;
static jmp_buf contexts[IL_THREADS + 1], starts[IL_THREADS], verdict;
static char *stacks;
static bool begun; /* all threads are before their first step */
static char failure[512];

enum { GOES_ON, PRUNED, FAILED };

bool il_active, il_reduce = true;
uint64_t (*il_state)(void);
uint32_t il_thread(void) { return current; }

void il_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(failure, sizeof failure, format, arguments);
    va_end(arguments);
    il_active = false;
    longjmp(verdict, FAILED);
}

/* ---- coroutines ---- */

static void __attribute__((noinline)) switch_to(uint32_t to)
{
    uint32_t from = current;
    if (from == to)
        return;
    if (from != MAIN)
        host_leave(from);
    current = to;
    il_active = to != MAIN;
    if (to != MAIN)
        host_enter(to);
    if (!_setjmp(contexts[from]))
        _longjmp(contexts[to], 1);
}

static void hand_over(void);

/* The first frame of a coroutine never returns, so that later executions can resume it. */
static void thread_body(void)
{
    (void)_setjmp(starts[current]);
    the_case->threads[current]();
    ended |= (uint8_t)(1u << current);
    if (begun)
        hand_over();
    else
        switch_to(MAIN);
    abort();
}

/* Runs a new coroutine up to its first step. */
static void __attribute__((noinline)) thread_begin(uint32_t thread)
{
    static ucontext_t context;
    static bool made[IL_THREADS];
    current = thread;
    host_enter(thread);
    il_active = true;
    if (_setjmp(contexts[MAIN]))
        return;
    if (made[thread])
        _longjmp(starts[thread], 1);
    made[thread] = true;
    getcontext(&context);
    context.uc_stack.ss_sp = stacks + (size_t)thread * STACK_BYTES;
    context.uc_stack.ss_size = STACK_BYTES;
    context.uc_link = NULL;
    makecontext(&context, thread_body, 0);
    setcontext(&context);
}

/* ---- dependence ---- */

static bool dependent(const volatile void *a, enum il_op a_op, const volatile void *b, enum il_op b_op)
{
    return a_op == IL_VANISH || b_op == IL_VANISH || (a == b && !(a_op == IL_READ && b_op == IL_READ));
}

static object *object_at(const volatile void *address)
{
    size_t i = ((uintptr_t)address * 0x9e3779b97f4a7c15u) >> 52;
    while (objects[i].execution == execution && objects[i].address != address)
        i = (i + 1) % OBJECTS;
    if (objects[i].execution != execution)
        objects[i] = (object){.address = address, .execution = execution};
    return &objects[i];
}

static void join(uint32_t *into, const uint32_t *other)
{
    for (int i = 0; i < IL_THREADS; i++)
        into[i] = into[i] > other[i] ? into[i] : other[i];
}

/* Did the step of node `a` happen before an event with this clock? */
static bool before(const node *a, const uint32_t *clock)
{
    return a->clock[a->thread] <= clock[a->thread];
}

/* Node `late` could have come before node `early`: makes sure that one of the ways there is tried. */
static void reverse(uint32_t early, uint32_t late)
{
    node *e = &nodes[early];
    uint8_t first = 0, met = 0;
    for (uint32_t i = early + 1; i <= late; i++) {
        const node *n = &nodes[i];
        if (i < late && before(e, n->clock))
            continue;
        uint8_t bit = (uint8_t)(1u << n->thread);
        if (met & bit)
            continue;
        met |= bit;
        bool initial = true;
        for (uint32_t k = early + 1; k < i && initial; k++)
            initial = before(e, nodes[k].clock) || !before(&nodes[k], n->clock);
        if (initial)
            first |= bit;
    }
    if (e->backtrack & first)
        return;
    uint8_t wanted = first & (1u << nodes[late].thread) ? (uint8_t)(1u << nodes[late].thread)
        : (uint8_t)(first & (0u - first));
    e->backtrack |= wanted & e->enabled ? wanted : e->enabled;
}

/* Reverses earlier steps that the newest one depends on and that nothing orders before it; `clock` is its thread's
 * before the step. */
static void reverse_all(uint32_t newest, const uint32_t *clock)
{
    const node *n = &nodes[newest];
    uint8_t settled = (uint8_t)(1u << n->thread);
    for (uint32_t i = newest; i-- > 0 && settled != (1u << IL_THREADS) - 1;) {
        const node *e = &nodes[i];
        uint8_t bit = (uint8_t)(1u << e->thread);
        if (settled & bit)
            continue;
        if (before(e, clock))
            settled |= bit;
        else if (dependent(e->object, e->op, n->object, n->op) && !(n->op == IL_TAKE && e->op == IL_DROP)) {
            reverse(i, newest);
            settled |= bit;
        }
    }
}

/* ---- steps ---- */

static bool can_step(uint32_t thread, const pending *p)
{
    if ((ended | blocked) & (1u << thread))
        return false;
    return p->op != IL_TAKE || !host_lock_held(p->object);
}

/* Fills the new node from the state that its parent left, and chooses. */
static void node_begin(node *n, const node *parent)
{
    n->enabled = n->done = n->sleep = 0;
    for (uint32_t t = 0; t < IL_THREADS; t++)
        if (can_step(t, &n->next[t]))
            n->enabled |= (uint8_t)(1u << t);
    if (parent && il_reduce) {
        uint8_t asleep = (uint8_t)((parent->sleep | parent->done) & ~(1u << parent->thread));
        for (uint32_t t = 0; t < IL_THREADS; t++)
            if (asleep >> t & 1 && !dependent(parent->next[t].object, parent->next[t].op, parent->object, parent->op))
                n->sleep |= (uint8_t)(1u << t);
    }
    uint8_t able = n->enabled & (uint8_t)~n->sleep;
    if (!n->enabled)
        il_fail("deadlock: no thread can go on (threads %x have ended, %x sleep)", ended, blocked);
    if (!able) {
        il_active = false;
        longjmp(verdict, PRUNED);
    }
    if (parent && able >> parent->thread & 1)
        n->thread = parent->thread;
    else
        n->thread = (uint8_t)__builtin_ctz(able);
    /* threads that vanish take no later step that would ask for its turn before this one */
    bool only = il_reduce && n->next[n->thread].op != IL_VANISH;
    n->backtrack = only ? (uint8_t)(1u << n->thread) : n->enabled;
    n->choice = 0;
    n->choices = 1;
}

/* Hands over: the newest node keeps what the thread announced, and the next one inherits it. */
static void hand_over(void)
{
    if ((ended | (blocked & the_case->daemons)) == (1u << IL_THREADS) - 1) {
        switch_to(MAIN);
        return;
    }
    if (step + 1 >= IL_STEPS)
        il_fail("no end after %d steps", IL_STEPS);
    node *n = &nodes[step];
    if (step >= fixed)
        node_begin(n, step ? n - 1 : NULL);
    switch_to(n->thread);
}

void il_before(const volatile void *address, enum il_op op)
{
    uint32_t me = current;
    nodes[step].next[me] = (pending){address, op};
    if (!begun)
        switch_to(MAIN);
    else
        hand_over();
}

int il_choose(int n)
{
    node *at = &nodes[step];
    if (failures_left == 0)
        return 0;
    at->choices = (uint8_t)n;
    failures_left -= at->choice != 0;
    return at->choice;
}

static const char *const op_names[] = {"load", "store", "update", "take", "try", "drop", "wait", "wakes up", "wake",
    "vanish"};

void il_after(const volatile void *address, enum il_op op, enum il_order order, const void *pc)
{
    uint32_t me = current, clock[IL_THREADS];
    node *n = &nodes[step];
    object *o = object_at(address);
    n->object = address;
    n->op = op;
    n->pc = pc;
    memcpy(clock, clocks[me], sizeof clock);
    join(clocks[me], op == IL_READ ? o->wrote : o->seen);
    for (uint32_t t = 0; op == IL_VANISH && t < IL_THREADS; t++)
        join(clocks[me], clocks[t]);
    clocks[me][me] = ++clock[me];
    clock[me]--;
    memcpy(n->clock, clocks[me], sizeof n->clock);
    if (op != IL_READ)
        memcpy(o->wrote, clocks[me], sizeof o->wrote);
    join(o->seen, clocks[me]);
    races_sync(me, (uintptr_t)address, op, order);
    if (step + 1 >= fixed)
        reverse_all(step, clock);
    step++;
    memcpy(nodes[step].next, n->next, sizeof n->next);
    if (the_case->step)
        the_case->step();
}

void il_vanish(void)
{
    il_before(&ended, IL_VANISH);
    ended |= (uint8_t)~(1u << current);
    ended &= (1u << IL_THREADS) - 1;
    races_vanish(current);
    il_after(&ended, IL_VANISH, IL_RELAXED, __builtin_return_address(0));
}

void il_block(const volatile void *address)
{
    blocked |= (uint8_t)(1u << current);
    blocked_on[current] = address;
}

void il_unblock(const volatile void *address)
{
    for (uint32_t t = 0; t < IL_THREADS; t++)
        if (blocked >> t & 1 && blocked_on[t] == address)
            blocked &= (uint8_t)~(1u << t);
}

/* ---- executions ---- */

/* Enters the state into a set, for il_state; true if it is new. */
static bool state_is_new(uint64_t state)
{
    enum { STATES = 1 << 16 };
    static struct {
        uint64_t state, exploration;
    } seen[STATES];
    size_t i = (state * 0x9e3779b97f4a7c15u) >> 48;
    for (uint32_t tries = 0; seen[i].exploration == exploration; i = (i + 1) % STATES) {
        if (seen[i].state == state)
            return false;
        IL_CHECK(++tries < STATES, "engine.c: too many states");
    }
    seen[i].state = state;
    seen[i].exploration = exploration;
    return true;
}

static void execution_run(void)
{
    execution++;
    step = 0;
    begun = false;
    ended = blocked = 0;
    failures_left = failures_most;
    memset(clocks, 0, sizeof clocks);
    races_reset();
    hooks_reset();
    host_restore();
    for (uint32_t t = 0; t < IL_THREADS; t++)
        if (the_case->threads[t])
            thread_begin(t);
        else
            ended |= (uint8_t)(1u << t);
    begun = true;
    hand_over();
    uint64_t state = il_state ? il_state() : 0;
    if (il_state && state_is_new(state)) {
        states++;
        digest += state;
    }
    if (the_case->final)
        the_case->final();
}

/* Prepares the next order to try; false if there is none. */
static bool advance(uint32_t depth)
{
    for (; depth > 0; depth--) {
        node *n = &nodes[depth - 1];
        if (n->choice + 1 < n->choices) {
            n->choice++;
            fixed = depth;
            return true;
        }
        n->done |= (uint8_t)(1u << n->thread);
        uint8_t left = n->backtrack & n->enabled & (uint8_t)~(n->done | n->sleep);
        if (left) {
            n->thread = (uint8_t)__builtin_ctz(left);
            n->choice = 0;
            n->choices = 1;
            fixed = depth;
            return true;
        }
    }
    return false;
}

static void on_crash(int signal)
{
    if (!il_active && current == MAIN && !execution) {
        static const char text[] = "crash outside of any execution\n";
        fwrite(text, 1, sizeof text - 1, stderr);
        _Exit(2);
    }
    il_fail("crash: signal %d", signal);
}

static void prepare(void)
{
    if (stacks)
        return;
    stacks = mmap(NULL, (size_t)(IL_THREADS + 1) * STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
        0);
    if (stacks == MAP_FAILED)
        abort();
    stack_t alternate = {.ss_sp = stacks + (size_t)IL_THREADS * STACK_BYTES, .ss_size = STACK_BYTES};
    sigaltstack(&alternate, NULL);
    struct sigaction action = {.sa_handler = on_crash, .sa_flags = SA_ONSTACK | SA_NODEFER};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    sigaction(SIGFPE, &action, NULL);
}

static void print_trace(uint32_t steps)
{
    for (uint32_t i = 0; i < steps; i++) {
        char name[64];
        host_name(name, sizeof name, nodes[i].object);
        printf("      %3u  %*s%c  %-8s %-26s %s%s\n", i, 4 * nodes[i].thread, "", 'A' + nodes[i].thread,
            op_names[nodes[i].op], name, host_line(nodes[i].pc, 0), nodes[i].choice ? "  (fails for no reason)" : "");
    }
}

il_result il_explore(const il_case *c, int failures, uint64_t limit, bool trace)
{
    static il_result result; /* survives longjmp */
    static bool more, trace_it;
    memset(&result, 0, sizeof result);
    prepare();
    the_case = c;
    failures_most = failures;
    fixed = 0;
    states = digest = 0;
    exploration++;
    trace_it = trace;
    failure[0] = 0;
    execution++;
    current = MAIN;
    il_active = false;
    if (_setjmp(verdict) == FAILED) {
        snprintf(result.failure, sizeof result.failure, "in the setup: %s", failure);
        return result;
    }
    host_start();
    c->setup();
    host_save();
    result.begun = true;
    do {
        int outcome = _setjmp(verdict);
        if (outcome == GOES_ON) {
            execution_run();
        }
        current = MAIN;
        il_active = false;
        result.steps += step;
        if (outcome == FAILED) {
            snprintf(result.failure, sizeof result.failure, "%s", failure);
            if (trace_it)
                print_trace(step);
            return result;
        }
        if (outcome == PRUNED)
            result.pruned++;
        else {
            result.executions++;
            result.longest = step > result.longest ? step : result.longest;
        }
        more = advance(step);
    } while (more && result.executions + result.pruned < limit);
    result.complete = !more;
    result.states = states;
    result.digest = digest;
    return result;
}
