/* Threads: which there are, how they are stopped, and where their stacks are.
 *
 *     the collecting thread              another thread
 *     takes the lock                     anywhere, holding any lock but ours
 *     signals all others          -->    handler: notes its stack's hot end, posts `stopped`
 *     waits for `stopped`                waits for `epoch` to change
 *     marks, sweeps
 *     changes `epoch`, wakes      -->    returns from the handler
 *
 *     a stack     base (cold)  ...frames... [ frames below GC_do_blocking ] ...  top (hot)
 *                                             not scanned, unless a section (GC_call_with_gc_active) is above them
 *
 * 1. The list of threads, and each record but for `top`, changes only under the lock.
 * 2. A thread in GC_do_blocking is not signalled: its record has its hot end, and it takes the lock before it returns.
 * 3. The kernel stores a signalled thread's registers on its stack, above the handler's frame: scanning from there on
 *    finds them.
 * 4. While the world is stopped nothing here calls malloc, the loader or stdio: a stopped thread may hold their locks.
 *
 * All signals are blocked in the handler, so a stopped thread runs no code of the program. */
#include "libgc.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A part of a stack that is active above one that blocks. */
typedef struct section {
    uintptr_t base; /* its cold end */
    uintptr_t top_before; /* the hot end of the part that blocks */
    struct section *before;
} section;

typedef struct thread {
    struct thread *next;
    pthread_t id;
    uintptr_t base; /* the stack's cold end */
    uintptr_t low; /* the end of its memory; 0: the program set the base, so it is unknown */
    _Atomic uint32_t asked; /* the epoch in which the thread is to stop, so a stray signal does nothing */
    _Atomic uintptr_t top; /* the hot end, while the thread is stopped or blocks */
    section *sections;
    gb_cache *cache; /* NULL: there was no memory for one */
    bool blocks;
    bool ended, detached; /* by GC_pthread_create: its result stays a root until it is joined */
    void *result;
} thread;

int libgc_suspend_signal = SIGPWR, libgc_restart_signal = SIGXCPU;
static thread *threads;
static thread *first; /* the one that initialized, if it has not ended */
static char *first_bottom; /* GC_stackbottom, unless the program changed it */
static GB_TLS thread *self;
static _Atomic uint32_t epoch; /* odd: the world is stopped */
static sem_t stopped;
static pthread_key_t ends;

/* ---- the handler ---- */

static GB_NOINLINE void world_wait(uint32_t now)
{
    while (atomic_load(&epoch) == now)
        syscall(SYS_futex, &epoch, FUTEX_WAIT_PRIVATE, now, NULL, NULL, 0);
}

static void world_handler(int signal)
{
    int saved = errno;
    uint32_t now = atomic_load(&epoch);
    (void)signal;
    if (self && now % 2 && atomic_exchange(&self->asked, 0) == now) {
        atomic_store(&self->top, (uintptr_t)__builtin_frame_address(0));
        sem_post(&stopped);
        world_wait(now);
    }
    errno = saved;
}

/* ---- stop and start ---- */

/* Waits for `count` threads. Says once if that takes long: a thread may block the signal. */
static void world_await(unsigned count)
{
    static bool said;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 10;
    while (count) {
        if (sem_timedwait(&stopped, &until) == 0)
            count--;
        else if (errno == ETIMEDOUT) {
            if (!said)
                libgc_warn("waiting for a thread that does not stop: it blocks signal %lu\n",
                    (GC_word)libgc_suspend_signal);
            said = true;
            until.tv_sec += 3600;
        }
    }
}

static void world_tell(int event)
{
    for (const thread *t = threads; t; t = t->next)
        if (t != self && !t->blocks && !t->ended)
            libgc_thread_event(event, t->id);
}

void libgc_world_stop(void)
{
    unsigned count = 0;
    if (!libgc_threads)
        return;
    atomic_fetch_add(&epoch, 1);
    for (thread *t = threads; t; t = t->next)
        if (t != self && !t->blocks && !t->ended) {
            atomic_store(&t->asked, atomic_load(&epoch));
            count += pthread_kill(t->id, libgc_suspend_signal) == 0;
        }
    world_await(count);
    world_tell(10 /* GC_EVENT_THREAD_SUSPENDED */);
}

void libgc_world_start(void)
{
    if (!libgc_threads)
        return;
    world_tell(11 /* GC_EVENT_THREAD_UNSUSPENDED */);
    atomic_fetch_add(&epoch, 1);
    syscall(SYS_futex, &epoch, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

EXPORT void GC_stop_world_external(void)
{
    libgc_enter();
    libgc_world_stop();
}

EXPORT void GC_start_world_external(void)
{
    libgc_world_start();
    libgc_leave();
}

/* ---- stacks ---- */

/* Sets [*low, *base) to a thread's stack. The C library allocates for that, and if a new thread calls malloc, that maps
 * 64 MiB of addresses for it. */
static bool stack_bounds(pthread_t id, uintptr_t *low, uintptr_t *base)
{
    pthread_attr_t attributes;
    void *start;
    size_t bytes;
    if (pthread_getattr_np(id, &attributes))
        return false;
    pthread_attr_getstack(&attributes, &start, &bytes);
    pthread_attr_destroy(&attributes);
    *low = (uintptr_t)start;
    *base = (uintptr_t)start + bytes;
    return true;
}

/* Returns where the memory of the stack begins: the main thread's grows as it is used. */
static uintptr_t stack_lowest(const thread *t)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t at = gb_round_down(t->base, page);
    unsigned char unused;
    while (at - page >= t->low && mincore((void *)(at - page), page, &unused) == 0)
        at -= page;
    return at;
}

/* The cold end of the stack that the thread runs on. A program with coroutines may say it by writing GC_stackbottom, as
 * Crystal's does at each switch: that is the first thread's. */
static uintptr_t stack_base(const thread *t)
{
    return t == first && GC_stackbottom != first_bottom ? (uintptr_t)GC_stackbottom : t->base;
}

static void stack_mark(glebe_gc *gc, const thread *t, uintptr_t top)
{
    uintptr_t base = stack_base(t);
    for (const section *s = t->sections; s; s = s->before) {
        glebe_gc_mark(gc, (const void *)top, (const void *)s->base);
        top = s->top_before;
    }
    if (base == t->base && t->low && (top < t->low || top > base))
        top = stack_lowest(t); /* it runs on another stack, as a coroutine: nothing says where this one ends */
    glebe_gc_mark(gc, (const void *)top, (const void *)base);
}

/* A frame of its own, below that with the registers. */
static GB_NOINLINE void stack_mark_own(glebe_gc *gc)
{
    uintptr_t top = (uintptr_t)__builtin_frame_address(0), low, base;
    if (self && !self->blocks)
        stack_mark(gc, self, top);
    else if (!self && stack_bounds(pthread_self(), &low, &base)) /* a thread that was never registered */
        glebe_gc_mark(gc, (const void *)top, (const void *)base);
}

GB_NOINLINE void libgc_world_mark(glebe_gc *gc)
{
    __builtin_unwind_init();
    for (const thread *t = threads; t; t = t->next) {
        glebe_gc_mark(gc, &t->result, &t->result + 1);
        if (t != self && !t->ended)
            stack_mark(gc, t, atomic_load(&t->top));
        else if (t == self && t->blocks)
            stack_mark(gc, t, atomic_load(&t->top));
    }
    stack_mark_own(gc);
    __asm__ volatile("" ::: "memory"); /* no tail call: this frame stays */
}

bool libgc_on_stack(const void *address)
{
    return self && (uintptr_t)address >= (uintptr_t)__builtin_frame_address(0) && (uintptr_t)address < stack_base(self);
}

/* ---- records ---- */

/* Records lie in the collector's heap, which serves where malloc has no memory left. */
static thread *record_new(void)
{
    libgc_enter();
    thread *t = gb_calloc(libgc_gc->heap, 1, sizeof *t);
    libgc_leave();
    return t;
}

/* The lock is held. */
static void record_free(thread *t) { gb_free("glebe_gc", libgc_gc->heap, t); }

/* Begins the record of the calling thread. Its stack's memory is [t->low, end), or `end` is 0. */
static void thread_begins(thread *t, uintptr_t base, uintptr_t end)
{
    t->id = pthread_self();
    if (base <= t->low || base > end)
        t->low = 0;
    t->base = base;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, libgc_suspend_signal);
    libgc_enter();
    t->next = threads;
    threads = t;
    self = t;
    libgc_cache = t->cache = gb_cache_new(libgc_gc);
    libgc_leave();
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    pthread_setspecific(ends, t);
}

static thread *thread_add(uintptr_t base)
{
    thread *t = record_new();
    uintptr_t end = 0;
    if (t) {
        stack_bounds(pthread_self(), &t->low, &end);
        thread_begins(t, base, end);
    }
    return t;
}

/* Returns the cache of a thread that ends, or ended. */
static void cache_drop(thread *t)
{
    gb_cache_end(libgc_gc, t->cache);
    t->cache = NULL;
    if (t == self)
        libgc_cache = NULL;
}

static void thread_forget(thread *t)
{
    first = first == t ? NULL : first;
    for (thread **at = &threads; *at; at = &(*at)->next)
        if (*at == t) {
            *at = t->next;
            break;
        }
    record_free(t);
}

static void thread_drop(thread *t)
{
    libgc_enter();
    cache_drop(t);
    if (t == self)
        self = NULL;
    thread_forget(t);
    libgc_leave();
}

/* The thread ends, and did not unregister. */
static void thread_at_end(void *record)
{
    if (record == self && self && !self->ended)
        thread_drop(self);
}

static thread *thread_find(pthread_t id, bool ended)
{
    for (thread *t = threads; t; t = t->next)
        if (pthread_equal(t->id, id) && (t->ended || !ended))
            return t;
    return NULL;
}

EXPORT void GC_allow_register_threads(void)
{
    if (!libgc_gc)
        GC_init();
    libgc_threads = true;
}

EXPORT int GC_register_my_thread(const struct GC_stack_base *base)
{
    if (self)
        return GC_DUPLICATE;
    if (!libgc_threads) {
        libgc_warn("GC_register_my_thread: GC_allow_register_threads was not called\n", 0);
        abort();
    }
    return thread_add((uintptr_t)base->mem_base) ? GC_SUCCESS : GC_NO_MEMORY;
}

EXPORT int GC_unregister_my_thread(void)
{
    if (!self)
        return GC_UNIMPLEMENTED;
    pthread_setspecific(ends, NULL);
    thread_drop(self);
    return GC_SUCCESS;
}

EXPORT int GC_thread_is_registered(void) { return self != NULL; }

/* ---- threads of GC_pthread_create ---- */

typedef struct beginning {
    void *(*function)(void *);
    void *argument; /* on the creating thread's stack, until the new thread has it on its own */
    thread *record;
    uintptr_t end; /* of the stack's memory */
    sem_t known, begun; /* known: the creating thread has found the stack */
} beginning;

static void thread_ended(void *unused)
{
    (void)unused;
    thread *t = self;
    if (!t)
        return;
    pthread_setspecific(ends, NULL);
    libgc_enter();
    t->ended = true;
    cache_drop(t);
    self = NULL;
    if (t->detached)
        thread_forget(t);
    libgc_leave();
}

static void semaphore_take(sem_t *semaphore)
{
    while (sem_wait(semaphore))
        ;
}

static GB_NOINLINE void *thread_run(struct GC_stack_base *base, void *data)
{
    beginning *begin = data;
    void *(*function)(void *) = begin->function, *argument = begin->argument;
    semaphore_take(&begin->known);
    thread_begins(begin->record, (uintptr_t)base->mem_base, begin->end);
    sem_post(&begin->begun);
    void *result;
    pthread_cleanup_push(thread_ended, NULL);
    result = function(argument);
    if (self)
        self->result = result;
    pthread_cleanup_pop(1); /* the record may be gone now */
    return result;
}

EXPORT void *GC_call_with_stack_base(void *(*function)(struct GC_stack_base *, void *), void *data)
{
    struct GC_stack_base base;
    base.mem_base = &base;
    void *result = function(&base, data);
    __asm__ volatile("" : : "r"(&base) : "memory"); /* no tail call: the base stays */
    return result;
}

static void *thread_begin(void *data) { return GC_call_with_stack_base(thread_run, data); }

EXPORT int GC_pthread_create(
    pthread_t *id, const pthread_attr_t *attributes, void *(*function)(void *), void *argument)
{
    beginning begin = {.function = function, .argument = argument};
    int state = PTHREAD_CREATE_JOINABLE;
    GC_allow_register_threads();
    if (attributes)
        pthread_attr_getdetachstate(attributes, &state);
    thread *t = begin.record = record_new();
    if (!t)
        return EAGAIN;
    t->detached = state == PTHREAD_CREATE_DETACHED;
    sem_init(&begin.known, 0, 0);
    sem_init(&begin.begun, 0, 0);
    int failed = pthread_create(id, attributes, thread_begin, &begin);
    if (!failed) {
        stack_bounds(*id, &t->low, &begin.end);
        sem_post(&begin.known);
        semaphore_take(&begin.begun);
    } else {
        libgc_enter();
        record_free(t);
        libgc_leave();
    }
    sem_destroy(&begin.known);
    sem_destroy(&begin.begun);
    return failed;
}

EXPORT int GC_pthread_join(pthread_t id, void **result)
{
    int failed = pthread_join(id, result);
    if (failed)
        return failed;
    libgc_enter();
    thread *t = thread_find(id, true);
    if (t)
        thread_forget(t);
    libgc_leave();
    return 0;
}

EXPORT int GC_pthread_detach(pthread_t id)
{
    libgc_enter();
    int failed = pthread_detach(id);
    thread *t = failed ? NULL : thread_find(id, false);
    if (t)
        t->detached = true;
    if (t && t->ended)
        thread_forget(t);
    libgc_leave();
    return failed;
}

EXPORT void GC_pthread_exit(void *result)
{
    if (self)
        self->result = result;
    pthread_exit(result);
}

EXPORT int GC_pthread_cancel(pthread_t id) { return pthread_cancel(id); }

/* The signal that stops a thread stays unblocked. */
EXPORT int GC_pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    sigset_t copy;
    if (set && how != SIG_UNBLOCK) {
        copy = *set;
        sigdelset(&copy, libgc_suspend_signal);
        set = &copy;
    }
    return pthread_sigmask(how, set, old);
}

EXPORT void *GC_dlopen(const char *path, int mode) { return dlopen(path, mode); }

/* ---- blocking ---- */

EXPORT GB_NOINLINE void *GC_do_blocking(GC_fn_type *function, void *data)
{
    __builtin_unwind_init(); /* the registers are in this frame */
    thread *t = self;
    if (!t || t->blocks)
        return function(data);
    libgc_enter();
    atomic_store(&t->top, (uintptr_t)__builtin_frame_address(0) - 256);
    t->blocks = true;
    libgc_leave();
    void *result = function(data);
    libgc_enter();
    t->blocks = false;
    libgc_leave();
    return result;
}

EXPORT GB_NOINLINE void *GC_call_with_gc_active(GC_fn_type *function, void *data)
{
    thread *t = self;
    section s = {.base = (uintptr_t)__builtin_frame_address(0)};
    if (!t || !t->blocks) {
        if (t && t->low && s.base > t->base)
            t->base = s.base;
        void *result = function(data);
        __asm__ volatile("" : : "r"(&s) : "memory");
        return result;
    }
    libgc_enter();
    s.top_before = atomic_load(&t->top);
    s.before = t->sections;
    t->sections = &s;
    t->blocks = false;
    libgc_leave();
    void *result = function(data);
    libgc_enter();
    t->sections = s.before;
    atomic_store(&t->top, s.top_before);
    t->blocks = true;
    libgc_leave();
    return result;
}

/* ---- bases of stacks ---- */

EXPORT int GC_get_stack_base(struct GC_stack_base *base)
{
    uintptr_t low, end;
    if (!stack_bounds(pthread_self(), &low, &end))
        return GC_UNIMPLEMENTED;
    base->mem_base = (void *)end;
    return GC_SUCCESS;
}

EXPORT void *GC_get_my_stackbottom(struct GC_stack_base *base)
{
    if (!libgc_gc)
        GC_init();
    libgc_enter();
    base->mem_base = self ? (void *)self->base : NULL;
    libgc_leave();
    return self;
}

EXPORT void GC_set_stackbottom(void *handle, const struct GC_stack_base *base)
{
    thread *t = handle ? handle : self;
    GC_stackbottom = libgc_gc ? GC_stackbottom : base->mem_base;
    if (libgc_gc && t) {
        t->base = (uintptr_t)base->mem_base;
        t->low = 0;
        if (t == first)
            GC_stackbottom = first_bottom = base->mem_base;
    }
}

/* A thread on an alternate stack is scanned as one on an unknown stack: its whole own stack. */
EXPORT void GC_register_altstack(void *stack, GC_word bytes, void *alternate, GC_word alternate_bytes)
{
    (void)stack, (void)bytes, (void)alternate, (void)alternate_bytes;
}

EXPORT void GC_suspend_thread(pthread_t id)
{
    (void)id;
    REFUSE();
}
EXPORT void GC_resume_thread(pthread_t id)
{
    (void)id;
    REFUSE();
}
EXPORT int GC_is_thread_suspended(pthread_t id)
{
    (void)id;
    return 0;
}

/* ---- fork, and the start ---- */

EXPORT void GC_atfork_prepare(void) {}
EXPORT void GC_atfork_parent(void) {}
EXPORT void GC_atfork_child(void) {}

static void fork_prepare(void) { libgc_enter(); }
static void fork_parent(void) { libgc_leave(); }

/* The forking thread is the only one in the child. Records of the others are dropped, their results too. */
static void fork_child(void)
{
    for (thread **at = &threads; *at;) {
        thread *t = *at;
        if (t == self) {
            t->id = pthread_self();
            at = &t->next;
            continue;
        }
        *at = t->next;
        first = first == t ? NULL : first;
        cache_drop(t);
        record_free(t);
    }
    sem_init(&stopped, 0, 0);
    gb_team_forked();
    libgc_leave();
}

void libgc_world_init(void)
{
    uintptr_t low, base;
    sem_init(&stopped, 0, 0);
    pthread_key_create(&ends, thread_at_end);
    struct sigaction action = {.sa_handler = world_handler, .sa_flags = SA_RESTART};
    sigfillset(&action.sa_mask);
    sigaction(libgc_suspend_signal, &action, NULL);
    pthread_atfork(fork_prepare, fork_parent, fork_child);
    if (getpid() != (pid_t)syscall(SYS_gettid)) {
        if (stack_bounds(pthread_self(), &low, &base)) /* another thread than main initializes: both are known */
            thread_add(base);
        return;
    }
    if (!stack_bounds(pthread_self(), &low, &base))
        base = (uintptr_t)__builtin_frame_address(0);
    if (GC_stackbottom)
        base = (uintptr_t)GC_stackbottom;
    GC_stackbottom = first_bottom = (char *)base;
    first = thread_add(base);
}
