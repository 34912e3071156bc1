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
 * and its frame, of known size, ends at the next place.
 *
 * Kept walks follow each other in a ring of frames, and each ends with an empty frame. A new walk overwrites the oldest
 * ones, each from its innermost frame on, so what is left of a walk is the outer part of a stack. A table has where the
 * last frame of each return address and place is. It may be wrong, since it is never cleared: the frame says.
 *
 * The innermost frames are often where no walk had them. So of each frame that the unwinder found its size is kept too,
 * and who called whom. A walk follows these until it meets a kept walk; if it does not, the unwinder begins at the
 * innermost frame. No function is followed whose frames had different sizes, and no page is read in which no walk had a
 * frame. */
#if defined(__x86_64__)
#define LINUX_KNOWN 1
#else
#define LINUX_KNOWN 0
#endif
enum {
    LINUX_FRAMES = LINUX_KNOWN ? 4096 : 1,
    LINUX_SLOTS_LOG2 = 13, /* of the table of frames */
    LINUX_CALLS_LOG2 = 10, /* of the tables of calls */
    LINUX_PAGES_LOG2 = 6,
    LINUX_PAGE = 4096,
    LINUX_CERTAIN = 3,
    LINUX_BITS_LOG2 = 13
};

typedef struct linux_frame {
    uintptr_t caller, place; /* 0: the end of a walk */
} linux_frame;
static linux_frame linux_known[LINUX_FRAMES + 1]; /* the last is always empty */
static uint16_t linux_known_at[LINUX_KNOWN ? 1 << LINUX_SLOTS_LOG2 : 1];
static uint32_t linux_known_next; /* in the ring */
/* The function that goes on at `caller` had a frame of so many bytes, so many times in turn. */
typedef struct linux_size {
    uintptr_t caller;
    uint32_t bytes, times;
} linux_size;
/* The function that goes on at `caller` was called from before `next`. */
typedef struct linux_call {
    uintptr_t caller, next;
} linux_call;
static linux_size linux_sizes[LINUX_KNOWN ? 1 << LINUX_CALLS_LOG2 : 1];
static linux_call linux_calls[LINUX_KNOWN ? 1 << LINUX_CALLS_LOG2 : 1];
/* By hashes of return addresses: the function's frame had one size LINUX_CERTAIN times; it had two sizes. */
static uint64_t linux_certain[LINUX_KNOWN ? 1 << (LINUX_BITS_LOG2 - 6) : 1];
static uint64_t linux_varies[LINUX_KNOWN ? 1 << (LINUX_BITS_LOG2 - 6) : 1];
static uintptr_t linux_pages[LINUX_KNOWN ? 1 << LINUX_PAGES_LOG2 : 1]; /* in which kept walks had frames */
static _Atomic uint32_t linux_known_used; /* a thread uses them: others walk all frames */

typedef struct linux_walk {
    uintptr_t *callers;
    uint32_t count, most, fresh; /* frames; of these, those that are not of a kept walk */
    bool skipped; /* the first frame, which is gb_port_stack's own */
    bool known; /* the kept walks may be used */
    bool placed; /* each return address is at its place so far */
    uintptr_t places[GB_SAMPLE_FRAMES];
} linux_walk;
typedef int linux_step(void *context, void *walk);
static int (*_Atomic linux_unwind)(linux_step *step, void *walk); /* set once, after the other two */
static uintptr_t (*linux_unwind_ip)(void *context);
static uintptr_t (*linux_unwind_pointer)(void *context); /* the frame's stack pointer after the call returns */

static uint16_t *linux_known_slot(uintptr_t caller, uintptr_t place)
{
    return linux_known_at + ((caller ^ place << 13) * GB_GOLDEN >> (sizeof caller * 8 - LINUX_SLOTS_LOG2));
}

/* Returns whether the function that goes on at `caller` has frames of one size. */
static bool linux_size_certain(uintptr_t caller)
{
    uintptr_t bit = caller * GB_GOLDEN >> (sizeof caller * 8 - LINUX_BITS_LOG2);
    return (linux_certain[bit / 64] & ~linux_varies[bit / 64]) >> bit % 64 & 1;
}

/* Ends the walk by the frames of a kept one, if it has this frame and all above it. */
static bool linux_walk_joins(linux_walk *walk, uintptr_t caller, uintptr_t place)
{
    const linux_frame *known = linux_known + *linux_known_slot(caller, place);
    uint32_t count = walk->count;
    if (known->place != place || known->caller != caller)
        return false;
    for (;;) {
        caller = known->caller;
        if (count == walk->most || *(const uintptr_t *)place != caller)
            return false;
        walk->callers[count] = caller;
        walk->places[count++] = place;
        place = __atomic_load_n(&(++known)->place, __ATOMIC_RELAXED);
        if (!place)
            break;
        if (!linux_size_certain(caller))
            return false;
    }
    walk->count = count;
    return true;
}

static linux_size *linux_size_of(uintptr_t caller)
{
    return linux_sizes + (caller * GB_GOLDEN >> (sizeof caller * 8 - LINUX_CALLS_LOG2));
}

static linux_call *linux_call_of(uintptr_t caller, uintptr_t next)
{
    return linux_calls + ((caller ^ next << 13) * GB_GOLDEN >> (sizeof caller * 8 - LINUX_CALLS_LOG2));
}

static void linux_call_keep(uintptr_t caller, uintptr_t next, uintptr_t bytes)
{
    linux_size *size = linux_size_of(caller);
    uintptr_t bit = caller * GB_GOLDEN >> (sizeof caller * 8 - LINUX_BITS_LOG2);
    if (size->caller != caller)
        *size = (linux_size){caller, (uint32_t)bytes, 0};
    if (size->bytes != bytes)
        linux_varies[bit / 64] |= (uint64_t)1 << bit % 64;
    else if (++size->times == LINUX_CERTAIN)
        linux_certain[bit / 64] |= (uint64_t)1 << bit % 64;
    *linux_call_of(caller, next) = (linux_call){caller, next};
}

static uintptr_t *linux_page(uintptr_t place)
{
    return linux_pages + place / LINUX_PAGE % (1 << LINUX_PAGES_LOG2);
}

/* Returns the place of the next return address; 0 if no kept call tells. */
static uintptr_t linux_call_place(uintptr_t caller, uintptr_t place)
{
    const linux_size *size = linux_size_of(caller);
    uintptr_t at = place + size->bytes;
    if (size->caller != caller || !linux_size_certain(caller)
        || ((at ^ place) >= LINUX_PAGE && *linux_page(at) != at / LINUX_PAGE))
        return 0;
    uintptr_t next = *(const uintptr_t *)at;
    const linux_call *call = linux_call_of(caller, next);
    return call->caller == caller && call->next == next ? at : 0;
}

/* Walks by kept calls until it meets a kept walk. Else the walk is empty again. */
static bool linux_walk_follows(linux_walk *walk, uintptr_t place)
{
    while (place && walk->count < walk->most) {
        uintptr_t caller = *(const uintptr_t *)place;
        if (linux_walk_joins(walk, caller, place))
            return true;
        walk->callers[walk->fresh] = caller;
        walk->places[walk->fresh++] = place;
        walk->count = walk->fresh;
        place = linux_call_place(caller, place);
    }
    walk->count = walk->fresh = 0;
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
            walk->fresh = walk->count;
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
    if (linux_known_next + walk->count >= LINUX_FRAMES) {
        for (uint32_t i = linux_known_next; i < LINUX_FRAMES; i++)
            linux_known[i].place = 0; /* the rest of a walk whose beginning is gone */
        linux_known_next = 0;
    }
    linux_frame *known = linux_known + linux_known_next;
    for (uint32_t i = 0; i < walk->count; i++) {
        known[i] = (linux_frame){walk->callers[i], walk->places[i]};
        *linux_known_slot(walk->callers[i], walk->places[i]) = (uint16_t)(linux_known_next + i);
        *linux_page(walk->places[i]) = walk->places[i] / LINUX_PAGE;
    }
    known[walk->count].place = 0;
    linux_known_next += walk->count + 1;
}

/* Another thread may have been using the kept walks when the process forked. */
void gb_port_stack_forked(void)
{
    if (gb_load_relaxed(&linux_known_used)) {
        memset(linux_known, 0, sizeof linux_known);
        memset(linux_sizes, 0, sizeof linux_sizes);
        memset(linux_calls, 0, sizeof linux_calls);
        gb_store(&linux_known_used, 0);
    }
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

/* ---- the unwinder's tables ----
 * A first read of a page of a file maps the window of 64 KiB around it, as far as the mapping goes, and the walks of a
 * large program meet nearly all windows. So the mapping is cut where the tables are: each second stripe gets an advice
 * that the others have not, and a window ends with its stripe. The advice is a hint. Nothing is lost, whatever memory
 * the program has put there meanwhile. docs/decisions/0099 */
enum { LINUX_STRIPE = 16 << 10, LINUX_TABLE_LEAST = 16 << 10, LINUX_STRIPES = 128 };

static int linux_table_cut(struct dl_phdr_info *info, size_t bytes, void *data)
{
    const ElfW(Phdr) *headers = info->dlpi_phdr, *table = NULL;
    uint32_t *stripes = data;
    (void)bytes;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (headers[i].p_type == PT_GNU_EH_FRAME && headers[i].p_memsz >= LINUX_TABLE_LEAST)
            table = headers + i; /* an index; the tables follow it, 6 to 7 times as large */
    for (int i = 0; table && i < info->dlpi_phnum; i++) {
        size_t from = table->p_vaddr - headers[i].p_vaddr, all = 8 * table->p_memsz;
        if (headers[i].p_type != PT_LOAD || from >= headers[i].p_filesz)
            continue;
        all = all < headers[i].p_filesz - from ? all : headers[i].p_filesz - from;
        uintptr_t end = info->dlpi_addr + table->p_vaddr + all;
        uintptr_t start = (end - all + LINUX_STRIPE - 1) & ~((uintptr_t)LINUX_STRIPE - 1);
        for (; start + LINUX_STRIPE <= end && *stripes < LINUX_STRIPES; start += 2 * LINUX_STRIPE, ++*stripes)
            madvise((void *)start, LINUX_STRIPE, MADV_SEQUENTIAL);
    }
    return 0;
}

void gb_port_stack_often(void)
{
    static _Atomic uint32_t cut;
    uint32_t stripes = 0;
    int saved = errno;
    if (linux_unwind && !gb_swap(&cut, 1))
        dl_iterate_phdr(linux_table_cut, &stripes);
    errno = saved;
}

/* ---- walks ---- */

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
    walk.count = walk.fresh = 0;
    walk.most = most;
    walk.skipped = walk.known = false;
    walk.placed = true;
    int (*unwind)(linux_step *, void *) = linux_unwind;
    if (!unwind)
        return sizeof(void *) == 8 ? linux_frames(__builtin_frame_address(0), callers, most) : 0;
    walk.known = LINUX_KNOWN && most == GB_SAMPLE_FRAMES && !gb_swap(&linux_known_used, 1);
    if (walk.known) {
        uintptr_t place = (uintptr_t)__builtin_dwarf_cfa() - sizeof place;
        if (!linux_walk_follows(&walk, place)) {
            unwind(linux_walk_step, &walk);
            for (uint32_t i = 0; walk.placed && i <= walk.fresh && i + 1 < walk.count; i++)
                linux_call_keep(walk.callers[i], walk.callers[i + 1], walk.places[i + 1] - walk.places[i]);
        }
        if (walk.fresh && walk.placed && walk.count < most)
            linux_walk_keep(&walk);
        gb_store(&linux_known_used, 0);
    } else
        unwind(linux_walk_step, &walk);
    return walk.count;
}
