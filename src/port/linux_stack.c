/* The stack of the calling thread, for heap profiles and reports. It follows linux.c in ../glebe.c.
 *
 * The unwinder of the compiler's library reads the tables that C++ exceptions use, which nearly all code has. Its
 * lookup takes no lock of the loader since glibc 2.35. Without it the walk follows frame pointers, where each frame is
 * above the one before it and on the same stack.
 *
 * The unwinder takes some 2,000 instructions a frame, and most samples have a stack that an earlier one had, or the
 * outer part of it. So on x86-64, where a call leaves the return address just below the caller's frame, the last walks
 * are kept, each frame with the place of its return address:
 *
 *     this walk    malloc <- copy   <- parse <- main <- ...    from the frame on that a kept walk has, with the same
 *     kept walk    malloc <- string <- parse <- main <- ...    return address at the same place, the frames are the
 *                                      ^ here                  same if all places still hold theirs
 *
 * A place is read only after the one below it held what it should. So the function of that frame was called from there
 * and its frame, of known size, ends at the next place. */
#if defined(__x86_64__)
enum { LINUX_KNOWN = 32 };
#else
enum { LINUX_KNOWN = 0 };
#endif

/* Walks that are kept. A child of fork may find one half written: its count is 0. */
typedef struct linux_known {
    uint32_t count;
    uintptr_t callers[GB_SAMPLE_FRAMES], places[GB_SAMPLE_FRAMES]; /* the innermost first */
} linux_known;
static linux_known linux_walks[LINUX_KNOWN ? LINUX_KNOWN : 1];
static uint32_t linux_walks_next;
static _Atomic uint32_t linux_walks_user; /* the process of the thread that uses them: others walk all frames */

typedef struct linux_walk {
    uintptr_t *callers;
    uint32_t count, most;
    bool skipped; /* the first frame, which is gb_port_stack's own */
    bool known; /* linux_walks may be used */
    bool placed; /* each return address is at its place so far */
    uint32_t at[LINUX_KNOWN ? LINUX_KNOWN : 1]; /* in each kept walk, the first frame that is not below this one */
    uintptr_t places[GB_SAMPLE_FRAMES];
} linux_walk;
typedef int linux_step(void *context, void *walk);
static int (*_Atomic linux_unwind)(linux_step *step, void *walk); /* set once, after the other two */
static uintptr_t (*linux_unwind_ip)(void *context);
static uintptr_t (*linux_unwind_pointer)(void *context); /* the frame's stack pointer after the call returns */

/* Returns whether the stack is the kept one from frame `from` on, which is known to be there. */
static bool linux_known_holds(const linux_known *known, uint32_t from)
{
    for (uint32_t i = from + 1; i < known->count; i++)
        if (*(const uintptr_t *)known->places[i] != known->callers[i])
            return false;
    return true;
}

/* Ends the walk by the frames of a kept one, if it has this frame and all above it. */
static bool linux_walk_joins(linux_walk *walk, uintptr_t caller, uintptr_t place)
{
    for (int w = 0; w < LINUX_KNOWN; w++) {
        const linux_known *known = linux_walks + w;
        uint32_t at = walk->at[w];
        while (at < known->count && known->places[at] < place)
            at++;
        walk->at[w] = at;
        if (at == known->count || known->places[at] != place || known->callers[at] != caller
            || walk->count + known->count - at > walk->most || !linux_known_holds(known, at))
            continue;
        for (; at < known->count; at++, walk->count++) {
            walk->callers[walk->count] = known->callers[at];
            walk->places[walk->count] = known->places[at];
        }
        return true;
    }
    return false;
}

static int linux_walk_step(void *context, void *data)
{
    enum { END = 5 }; /* _URC_END_OF_STACK */
    linux_walk *walk = data;
    uintptr_t at = linux_unwind_ip(context);
    if (at == 0 || walk->count == walk->most)
        return END;
    if (walk->skipped) {
        if (walk->known) {
            uintptr_t place = linux_unwind_pointer(context) - sizeof at;
            walk->placed = walk->placed && *(const uintptr_t *)place == at;
            if (walk->placed && linux_walk_joins(walk, at, place))
                return END;
            walk->places[walk->count] = place;
        }
        walk->callers[walk->count++] = at;
    }
    walk->skipped = true;
    return 0;
}

static void linux_walk_keep(const linux_walk *walk)
{
    linux_known *known = linux_walks + linux_walks_next++ % (LINUX_KNOWN ? LINUX_KNOWN : 1);
    known->count = 0;
    atomic_signal_fence(memory_order_seq_cst);
    memcpy(known->callers, walk->callers, walk->count * sizeof walk->callers[0]);
    memcpy(known->places, walk->places, walk->count * sizeof walk->places[0]);
    atomic_signal_fence(memory_order_seq_cst);
    known->count = walk->count;
}

/* A program in C may not have libgcc_s, so nothing here requires it at link time. Its first walk may allocate, so one
 * is made here. */
void gb_port_stack_start(void)
{
    extern int _Unwind_Backtrace(linux_step *, void *) __attribute__((weak));
    extern uintptr_t _Unwind_GetIP(void *) __attribute__((weak));
    extern uintptr_t _Unwind_GetCFA(void *) __attribute__((weak));
    extern void *dlopen(const char *, int) __attribute__((weak));
    extern void *dlsym(void *, const char *) __attribute__((weak));
    int saved = errno;
    if (linux_unwind)
        return;
    if (_Unwind_Backtrace && _Unwind_GetIP && _Unwind_GetCFA) {
        linux_unwind_ip = _Unwind_GetIP;
        linux_unwind_pointer = _Unwind_GetCFA;
        linux_unwind = _Unwind_Backtrace;
    } else if (dlopen && dlsym) {
        void *library = dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL);
        void *walk = library ? dlsym(library, "_Unwind_Backtrace") : NULL;
        void *ip = library ? dlsym(library, "_Unwind_GetIP") : NULL;
        void *pointer = library ? dlsym(library, "_Unwind_GetCFA") : NULL;
        if (walk && ip && pointer) {
            memcpy(&linux_unwind_ip, &ip, sizeof ip);
            memcpy(&linux_unwind_pointer, &pointer, sizeof pointer);
            linux_unwind = (union { void *data; int (*function)(linux_step *, void *); }){walk}.function;
        }
    }
    uintptr_t callers[2];
    gb_port_stack(callers, 2);
    errno = saved;
}

/* Follows frame pointers: each frame begins with the address of its caller's, and the return address. */
static uint32_t linux_frames(const uintptr_t *frame, uintptr_t *callers, uint32_t most)
{
    enum { LONGEST = 1 << 20 };
    uint32_t count = 0;
    while (count < most && frame[1] > 4096) {
        const uintptr_t *next = (const uintptr_t *)frame[0];
        callers[count++] = frame[1];
        if ((uintptr_t)next <= (uintptr_t)frame || (uintptr_t)next - (uintptr_t)frame > LONGEST
            || (uintptr_t)next % sizeof(uintptr_t) != 0)
            break;
        frame = next;
    }
    return count;
}

GB_NOINLINE uint32_t gb_port_stack(uintptr_t *callers, uint32_t most)
{
    linux_walk walk; /* `places` stays as it is */
    walk.callers = callers;
    walk.count = 0;
    walk.most = most;
    walk.skipped = walk.known = false;
    walk.placed = true;
    int (*unwind)(linux_step *, void *) = linux_unwind;
    if (!unwind)
        return sizeof(void *) == 8 ? linux_frames(__builtin_frame_address(0), callers, most) : 0;
    uint32_t process = LINUX_KNOWN > 0 && most == GB_SAMPLE_FRAMES ? gb_port_process() : 0;
    walk.known = process && gb_swap(&linux_walks_user, process) != process;
    if (walk.known) {
        memset(walk.at, 0, sizeof walk.at);
        uintptr_t place = (uintptr_t)__builtin_dwarf_cfa() - sizeof place;
        if (!linux_walk_joins(&walk, *(const uintptr_t *)place, place)) {
            unwind(linux_walk_step, &walk);
            if (walk.placed && walk.count < most)
                linux_walk_keep(&walk);
        }
        gb_store(&linux_walks_user, 0);
    } else
        unwind(linux_walk_step, &walk);
    return walk.count;
}
