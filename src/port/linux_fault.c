/* Faults, and the address space of guarded blocks, on Linux.
 *
 * Our handler of SIGSEGV comes first, and calls the program's for faults that are not ours:
 *
 *     a fault -> ours: a guarded block? -> report
 *                  | no
 *                  v
 *                linux_fault_next: the program's handler, or what the kernel does without one
 *
 * The program may install its handler at any time, and so replace ours. Each call of gb_port_faults sees that, puts
 * ours back, and makes the program's the next. The program may call what it found when it installed its own: that is
 * ours, which then calls what was there before the first time. Signals that a process sent are passed on likewise. */
typedef struct sigaction linux_action;

static gb_port_fault *linux_fault_ours;
static linux_action linux_fault_first; /* what was there before ours */
static linux_action linux_fault_found[2]; /* the program's. The handler reads one while the other is written */
static linux_action *_Atomic linux_fault_next = &linux_fault_first;
static GB_TLS uintptr_t linux_fault_frame; /* of this thread's handler, while it calls the program's */

static void linux_fault_pass(const linux_action *to, int number, siginfo_t *info, void *context)
{
    bool sent = info->si_code <= 0;
    if (to->sa_flags & SA_SIGINFO)
        to->sa_sigaction(number, info, context);
    else if (to->sa_handler != SIG_DFL && to->sa_handler != SIG_IGN)
        to->sa_handler(number);
    else if (to->sa_handler == SIG_DFL || !sent) { /* the kernel ignores no fault */
        linux_action none = {.sa_handler = SIG_DFL};
        sigaction(number, &none, NULL);
        if (sent)
            raise(number); /* comes when this handler returns; a fault comes again by itself */
    }
}

static void linux_fault(int number, siginfo_t *info, void *context)
{
    const char *access = "access";
    uintptr_t code = 0, frame = (uintptr_t)__builtin_frame_address(0), outer = linux_fault_frame;
    int saved = errno;
#if defined(__x86_64__)
    enum { WRITES = 2 }; /* a bit of the processor's error code */
    const ucontext_t *thread = context;
    access = thread->uc_mcontext.gregs[REG_ERR] & WRITES ? "write" : "read";
    code = (uintptr_t)thread->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    code = (uintptr_t)((const ucontext_t *)context)->uc_mcontext.pc;
#endif
    if (info->si_code > 0 && linux_fault_ours((uintptr_t)info->si_addr, code, access)) {
        errno = saved;
        return;
    }
    /* a handler that was left by longjmp has no frame above this one */
    bool again = outer && frame < outer;
    linux_fault_frame = again ? outer : frame;
    linux_fault_pass(again ? &linux_fault_first : gb_load(&linux_fault_next), number, info, context);
    linux_fault_frame = again ? outer : 0;
}

bool gb_port_faults(gb_port_fault *ours)
{
    static bool installed;
    linux_action now, mine = {.sa_sigaction = linux_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    int saved = errno;
    bool known = sigaction(SIGSEGV, NULL, &now) == 0, there = known && (now.sa_flags & SA_SIGINFO)
        && now.sa_sigaction == linux_fault;
    if (known && !there) {
        linux_action *next = installed ? linux_fault_found + (gb_load(&linux_fault_next) == linux_fault_found)
                                       : &linux_fault_first;
        linux_fault_ours = ours;
        *next = now;
        gb_store(&linux_fault_next, next);
        mine.sa_mask = now.sa_mask;
        mine.sa_flags |= now.sa_flags & (SA_NODEFER | SA_RESTART);
        known = installed = sigaction(SIGSEGV, &mine, NULL) == 0;
    }
    errno = saved;
    return known;
}

uintptr_t gb_port_guards(size_t bytes)
{
    void *p = posix_map(0, bytes, PROT_NONE, 0);
    return p == MAP_FAILED ? 0 : (uintptr_t)p;
}

bool gb_port_guard(uintptr_t at, size_t bytes, bool accessible)
{
    return accessible ? posix_protect(at, bytes, PROT_READ | PROT_WRITE)
                      : posix_map(at, bytes, PROT_NONE, MAP_FIXED) == (void *)at;
}
