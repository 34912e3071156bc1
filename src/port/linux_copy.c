/* A copy of the process, for the search for leaks (GB_LEAKS). It follows linux_world.c in ../glebe.c, which stops the
 * threads.
 *
 *     this process                                        the copy
 *     stops all other threads: each stores its registers
 *     on its stack, above its handler's frame
 *     clone without a signal at its end           -->     has all memory as it is now, and one thread
 *     starts the threads                                  searches, writes what it finds into a file in memory
 *     waits for the copy                          <--     ends
 *
 * 1. The copy is made by the system call: fork handlers would take locks that a stopped thread may hold. Its end sends
 *    no signal, and the program's wait() does not see it, since it asks for children with a signal.
 * 2. In the copy all signals are blocked, so no handler of the program runs there. A fault ends it, without a core.
 * 3. Memory that is shared with other processes is not copied, and changes while it is read. Memory with MADV_DONTFORK
 *    is not in the copy. */
#if GB_LEAKS

enum { COPY_CLOEXEC = 1, COPY_WAIT_ALL = 0x40000000 /* __WALL */ };

static uint64_t copy_now_us(void)
{
    struct timespec t = {0, 0};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* The time that the thread was on a processor; 0 if it has ended. */
static uint64_t copy_ran_ns(int thread)
{
    enum { OF_A_THREAD = 4, BY_THE_SCHEDULER = 2 };
    struct timespec t = {0, 0};
    syscall(SYS_clock_gettime, (clockid_t)(~(unsigned)thread << 3 | OF_A_THREAD | BY_THE_SCHEDULER), &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static _Noreturn void copy_run(gb_copy_work *work, void *context, int file)
{
    const struct rlimit none = {0, 0};
    world.copied = true;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* do not outlive a process that was killed */
    setrlimit(RLIMIT_CORE, &none);
    work(context, file);
    for (;;)
        syscall(SYS_exit_group, 0);
}

static bool copy_stopped(uint32_t i)
{
    return atomic_load(&world.slots[i].state) == WORLD_STOPPED;
}

static uint32_t copy_threads(void)
{
    uint32_t threads = 1;
    for (uint32_t i = 0; i < world.count; i++)
        threads += copy_stopped(i);
    return threads;
}

int gb_port_copy(const void *frame, gb_copy_work *work, void *context, gb_copied *out)
{
    int saved = errno, error = 0;
    out->file = (int)syscall(SYS_memfd_create, "glebe", COPY_CLOEXEC);
    if (out->file < 0) {
        error = errno;
        errno = saved;
        return error;
    }
    uint64_t begun = copy_now_us();
    world.own_frame = (uintptr_t)frame;
    if (gb_port_world_stop()) {
        long child = syscall(SYS_clone, 0L, 0L, 0L, 0L, 0L);
        if (child == 0)
            copy_run(work, context, out->file);
        error = child < 0 ? errno : 0;
        out->threads = copy_threads();
        gb_port_world_start();
        out->stopped_us = copy_now_us() - begun;
        for (uint32_t i = 0; i < world.count; i++)
            world.slots[i].ran_ns = copy_ran_ns(world.slots[i].thread);
        int status;
        while (child > 0 && syscall(SYS_wait4, child, &status, COPY_WAIT_ALL, NULL) < 0 && errno == EINTR)
            continue;
    } else
        error = EAGAIN;
    if (!error && syscall(SYS_lseek, out->file, 0L, (long)SEEK_SET) < 0)
        error = errno;
    if (error)
        gb_port_copy_end(out);
    errno = saved;
    return error;
}

void gb_port_copy_wait(void)
{
    enum { LEAST_NS = 200000, MOST_US = 1000000, STEP_NS = 1000000 };
    int saved = errno;
    uint64_t since = copy_now_us(), flags;
    for (uint32_t i = 0; i < world.count && copy_now_us() - since < MOST_US;) {
        int thread = world.slots[i].thread;
        uint64_t ran = copy_ran_ns(thread);
        if (!copy_stopped(i) || ran == 0 || ran - world.slots[i].ran_ns >= LEAST_NS
            || world_state_of(thread, &flags) != 'R') {
            i++;
            continue;
        }
        const struct timespec step = {0, STEP_NS};
        syscall(SYS_nanosleep, &step, NULL);
    }
    errno = saved;
}

bool gb_port_copy_read(const gb_copied *copied, void *to, size_t bytes)
{
    int saved = errno;
    for (char *at = to; bytes > 0;) {
        long got = syscall(SYS_read, copied->file, at, bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        at += got;
        bytes -= (size_t)got;
    }
    errno = saved;
    return bytes == 0;
}

void gb_port_copy_end(gb_copied *copied)
{
    int saved = errno;
    syscall(SYS_close, copied->file);
    copied->file = -1;
    errno = saved;
}

/* ---- memory ---- */

/* Returns the end of what a thread that ended left in a mapping that looks like a stack, which the C library keeps for
 * the next thread; `from` if this is none. glibc's control block has its own address in its first and third word on
 * x86-64. The block is still used: it leads to the table of thread-local memory, which the library keeps too, and holds
 * the thread's result until pthread_join. */
static uintptr_t copy_dead_stack(uintptr_t from, uintptr_t to)
{
    enum { STEP = 64 };
    if (world_control() == 0)
        return from;
    for (uintptr_t at = gb_round_up(from, STEP); to - at >= STEP; at += STEP) {
        const uintptr_t *block = (const uintptr_t *)at;
        if (block[0] != at || block[2] != at)
            continue;
        for (uint32_t i = 0; i < world.count; i++)
            if (world.slots[i].control == at && copy_stopped(i))
                return from;
        return world_control() == at ? from : at;
    }
    return from;
}

/* Scans the resident pages of a shared mapping. Reading others could allocate memory that all processes see. */
static void copy_scan_shared(const world_reader *r, uintptr_t from, uintptr_t to)
{
    enum { SOME = 512 };
    unsigned char resident[SOME];
    for (uintptr_t at = from; at < to;) {
        size_t pages = (to - at) / r->page_bytes;
        pages = pages < SOME ? pages : SOME;
        if (syscall(SYS_mincore, at, pages * r->page_bytes, resident) != 0)
            return;
        for (size_t i = 0; i < pages; i++, at += r->page_bytes)
            if (resident[i] & 1)
                r->scan(r->context, at, at + r->page_bytes);
    }
}

#endif
