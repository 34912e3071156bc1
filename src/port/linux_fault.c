/* Faults, and the address space of guarded blocks, on Linux.
 *
 * Our handler of SIGSEGV comes first, and calls the program's for faults that are not ours. The program may install a
 * handler at any time, and so replace ours. Each call of gb_port_faults sees that, and puts ours before it:
 *
 *     at the start     the program sets X      before X      the program sets B      before B
 *     entry 0          X                       entry 1       B                       entry 2
 *       -> default                               -> X                                  -> B
 *
 * Each handler of the program gets an entry of its own, which stays. So whatever sigaction told the program, the
 * program may call, as B calls entry 1 for X, or install again. A handler that had an entry before gets the same.
 * Signals that a process sent are passed on likewise. */
typedef struct sigaction linux_action;

enum { LINUX_FAULTS = 8, LINUX_SEGV_MTESERR = 9 };
static gb_port_fault *linux_fault_ours;
static linux_action linux_fault_next[LINUX_FAULTS]; /* what the program had, by entry. Written once */

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

static void linux_fault(const linux_action *next, int number, siginfo_t *info, void *context)
{
    const char *access = "access";
    uintptr_t code = 0;
    int saved = errno;
#if defined(__x86_64__)
    enum { WRITES = 2 }; /* a bit of the processor's error code */
    const ucontext_t *thread = context;
    access = thread->uc_mcontext.gregs[REG_ERR] & WRITES ? "write" : "read";
    code = (uintptr_t)thread->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    code = (uintptr_t)((const ucontext_t *)context)->uc_mcontext.pc;
#endif
    if (GB_TAGS && info->si_code == LINUX_SEGV_MTESERR)
        access = GB_TAG_FAULT;
    bool ours = info->si_code > 0 && linux_fault_ours((uintptr_t)info->si_addr, code, access);
    errno = saved;
    if (!ours)
        linux_fault_pass(next, number, info, context);
}

#define LINUX_FAULTS_EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define LINUX_FAULT(n) \
    static void linux_fault_##n(int number, siginfo_t *info, void *context) \
    { \
        linux_fault(&linux_fault_next[n], number, info, context); \
    }
#define LINUX_FAULT_NAME(n) linux_fault_##n,
LINUX_FAULTS_EACH(LINUX_FAULT)
static void (*const linux_fault_entries[])(int, siginfo_t *, void *) = {LINUX_FAULTS_EACH(LINUX_FAULT_NAME)};

static bool linux_fault_same(const linux_action *a, const linux_action *b)
{
    return a->sa_flags == b->sa_flags
        && (a->sa_flags & SA_SIGINFO ? a->sa_sigaction == b->sa_sigaction : a->sa_handler == b->sa_handler)
        && memcmp(&a->sa_mask, &b->sa_mask, sizeof a->sa_mask) == 0;
}

bool gb_port_faults(gb_port_fault *ours)
{
    static uint32_t entries;
    linux_action now, mine = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
    int saved = errno;
    bool known = sigaction(SIGSEGV, NULL, &now) == 0, there = false;
    for (uint32_t i = 0; i < entries && known && now.sa_flags & SA_SIGINFO; i++)
        there = there || now.sa_sigaction == linux_fault_entries[i];
    if (known && !there) {
        uint32_t i = 0;
        while (i < entries && !linux_fault_same(&now, &linux_fault_next[i]))
            i++;
        known = i < LINUX_FAULTS;
        if (known) {
            if (i == entries)
                linux_fault_next[entries++] = now;
            linux_fault_ours = ours;
            mine.sa_sigaction = linux_fault_entries[i];
            mine.sa_mask = now.sa_mask;
            mine.sa_flags |= now.sa_flags & (SA_NODEFER | SA_RESTART);
            known = sigaction(SIGSEGV, &mine, NULL) == 0;
        }
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
