//go:build tinygo && gc.custom && custommalloc && tinygo.wasm

/* The core for TinyGo, compiled to bitcode together with the package. Its collector and its malloc share one heap. The
 * Go side calls the functions named glebe_go_; the others are the malloc family, for C in the same module.
 *
 * Asyncify instruments every function that might suspend, and an indirect call might. So there is none from an
 * allocation to the marks. The collector's state is a global, at an address that the compiler knows. */
#define GB_CALLBACKS 0
#define GB_IS_MALLOC 1
/* Set by the first weak reference, and by the first finalizer. In a program that has none the compiler sees that they
 * stay 0, and drops the code for them. */
static int go_weak, go_finalizers;
#define GB_WEAK go_weak
#define GB_FINALIZERS go_finalizers
#include "../../src/glebe.c"

static glebe_gc go_gc;

/* TinyGo passes Go functions a context behind their arguments; these have none. */
void *glebe_go_alloc_slow(size_t bytes, uintptr_t layout);
void *glebe_go_alloc(size_t bytes, uintptr_t layout, void *context) __asm__("runtime.alloc");

/* ---- goroutines' stacks ----
 *
 * A stack is an object of 64 KiB, and the goroutine's Task says which parts of it are in use:
 *
 *     canary | asyncify's, of a goroutine that waits --> | dead | <-- C's |
 *     ^canaryPtr                              asyncifysp^        ^csp     ^end
 *
 * The three pointers are neighbours in the Task's state (TinyGo's src/internal/task/task_asyncify.go), after its entry
 * and arguments; the assembly that starts, suspends and resumes goroutines relies on that. They are up to date while
 * the goroutine waits. While it runs, asyncify has saved nothing, and C's part begins at the stack pointer. If the
 * goroutine called the host and the host called back, the stack pointer is not known.
 *
 * Every goroutine starts here, since stacks.go redirects the runtime's call of tinygo_launch. So each Task is known. */
void tinygo_launch(void *state);

void glebe_go_launch(void *state)
{
    if (GB_STACKS) {
        gb_stack_runs(&go_gc, (const gb_stack *)((const uintptr_t *)state + 2));
        tinygo_launch(state);
    }
}

/* ---- allocation ---- */

/* Called before all else, but for a host that passes parameters to a component, and a pace set by a C constructor. */
bool glebe_go_start(void)
{
    return go_gc.heap || gb_collector_begin(&go_gc, gb_thread_start());
}

static GB_NOINLINE void *go_alloc_slow(size_t bytes, uintptr_t layout)
{
    void *object = object_new_slow(&go_gc, bytes, layout);
    return object ? object : glebe_go_alloc_slow(bytes, layout);
}

GB_NOINLINE void *glebe_go_alloc(size_t bytes, uintptr_t layout, void *context)
{
    (void)context;
    void *object = gb_object_recent(&go_gc, bytes, layout);
    if (GB_LIKELY(object)) {
        if (GB_STACKS)
            __asm__ volatile("" ::: "memory"); /* keeps the returns apart; if joined, asyncify would guard this too */
        return object;
    }
    return go_alloc_slow(bytes, layout);
}

/* For when no collection is due, or one has just run: memory may grow. */
void *glebe_go_alloc_growing(size_t bytes, uintptr_t layout)
{
    return go_gc.heap ? gb_object_new_growing(&go_gc, bytes, layout) : NULL;
}

bool glebe_go_due(void)
{
    return go_gc.due;
}

/* ---- a collection ----
 * Not inlined: inside a Go function this code would lose the attribute that keeps it small. */

GB_NOINLINE void glebe_go_begin(void)
{
    if (GB_STACKS)
        go_gc.stack_pointer = gb_round_down((uintptr_t)__builtin_frame_address(0), sizeof(uintptr_t));
    glebe_gc_begin(&go_gc);
}

extern char __global_base; /* the linker's */
static volatile char variable = 1;

/* Marks the roots in [start, end), except two parts whose contents look like addresses, since memory begins at 0. One
 * is our own state, with its byte counts and tables. The other is constants, which the linker puts before all
 * variables. Our size classes are among the last constants, if two variables, one of C and one of Go, have higher
 * addresses. */
void glebe_go_mark(uintptr_t start, uintptr_t end, uintptr_t go_variable)
{
#define OWN(object) {(uintptr_t)&(object), (uintptr_t)(&(object) + 1)}
    static const gb_root skipped[] = {{(uintptr_t)&__global_base, (uintptr_t)(&gb_classes + 1)}, OWN(gb_class_small),
        OWN(go_gc), OWN(gb_the), OWN(gb_heap_main), OWN(glebe_live)};
    bool constants_first = (uintptr_t)&variable > skipped[0].to && go_variable > skipped[0].to;
    while (start < end) {
        gb_root next = {end, end};
        for (size_t i = constants_first ? 0 : 1; i < sizeof skipped / sizeof skipped[0]; i++)
            if (skipped[i].from >= start && skipped[i].from < next.from)
                next = skipped[i];
        gb_mark_range(&go_gc, start, next.from);
        start = next.to;
    }
}

/* Returns whether weak references were cleared. */
GB_NOINLINE bool glebe_go_finish(void)
{
    uint32_t before = go_weak ? go_gc.weak.count : 0;
    glebe_gc_finish(&go_gc);
    return go_weak && go_gc.weak.count != before;
}

void glebe_go_free(void *object)
{
    if (object)
        glebe_gc_free(&go_gc, object);
}

void glebe_go_pace(unsigned percent, size_t least_bytes, unsigned every)
{
    if (glebe_go_start())
        glebe_gc_pace(&go_gc, percent, least_bytes, every);
}

int glebe_go_limit(size_t bytes)
{
    return glebe_heap_limit(gb_thread_start(), bytes);
}

void glebe_go_stats(glebe_gc_stats *collector, glebe_stats *all)
{
    glebe_stats_read(all);
    memset(collector, 0, sizeof *collector);
    if (go_gc.heap)
        glebe_gc_stats_read(&go_gc, collector);
}

GB_SHORT_BEGIN
/* Writes the text for exhausted memory, in which `bytes` could not be had, and ends it at `end`: 150 bytes at most.
 * Returns its start. It is written backwards, because that is how digits come. Go would take four times the code. */
char *glebe_go_out_of_memory(size_t bytes, char *end)
{
    static const char text[] = "panic: glebe: out of memory: # bytes wanted, # of # in use, # live after # collections";
    size_t numbers[] = {bytes, (size_t)gb_held(), (size_t)glebe_live.stats.committed_bytes, go_gc.live_bytes,
        (size_t)go_gc.stats.collections}, *number = numbers + sizeof numbers / sizeof *numbers;
    for (const char *from = text + sizeof text - 1; from > text;) {
        if (*--from != '#') {
            *--end = *from;
            continue;
        }
        size_t rest = *--number;
        do
            *--end = (char)('0' + rest % 10);
        while ((rest /= 10) != 0);
    }
    return end;
}
GB_SHORT_END

/* The start of the object that contains the address; NULL if there is none. */
void *glebe_go_object(void *address)
{
    size_t bytes;
    return (void *)gb_object_bounds(&go_gc, (uintptr_t)address, &bytes);
}

/* Makes glebe_go_ready return `context` when the object is found unreachable; NULL removes the finalizer. false: out of
 * memory. */
static void go_final(void *object, void *context)
{
    (void)object;
    (void)context;
}

bool glebe_go_finalizer(void *object, void *context)
{
    void *before;
    go_finalizers = 1;
    return gb_finalizer_set(&go_gc, object, context ? go_final : NULL, context, &before) == 0;
}

/* The context of the object's finalizer, or NULL. */
void *glebe_go_finalizer_of(void *object)
{
    gb_final *final = final_of(&go_gc, (uintptr_t)object);
    return final ? final->context : NULL;
}

bool glebe_go_any_ready(void)
{
    return GB_FINALIZERS && go_gc.ready > 0;
}

/* The next object whose finalizer is ready to run, with its context in *context; NULL if there is none. */
void *glebe_go_ready(void **context)
{
    gb_final *final = gb_ready_take(&go_gc);
    if (!final)
        return NULL;
    void *object = (void *)~final->object;
    *context = final->context;
    final_drop(&go_gc, final);
    return object;
}

/* ---- weak references ----
 * The core needs them outside of objects. Each is a block from malloc that holds the address until it is cleared. */

/* NULL: out of memory. */
void **glebe_go_weak_new(void *address, int late)
{
    void **slot = gb_alloc(gb_self, sizeof *slot);
    if (!slot)
        return NULL;
    *slot = address;
    go_weak = 2;
    if (gb_weak_add(&go_gc, slot, late) == 0)
        return slot;
    gb_free("free", gb_self, slot);
    return NULL;
}

void glebe_go_weak_free(void **slot)
{
    if (*slot)
        glebe_gc_weak_remove(&go_gc, slot);
    gb_free("free", gb_self, slot);
}

/* ---- memory that the host of a component writes ----
 *
 * While the host writes parameters, only local variables of WebAssembly refer to them, where no collector sees them;
 * they stay there in an exported function that runs without a goroutine. So the blocks are linked, and the list keeps
 * them until the host passes parameters again: by then the function has returned, since hosts do not enter a component
 * that is in a call. Of results of an imported function the caller has the addresses on its stack.
 *
 *     go_lent.first --> | next | block | --> | next | block | */

typedef struct go_lent_block {
    struct go_lent_block *next;
    alignas(8) char block[];
} go_lent_block;

static struct {
    go_lent_block *first;
    uintptr_t stack; /* the stack pointer when no exported function is running: the highest so far */
    uint64_t collections; /* when the first block was linked */
} go_lent;

static void *go_lend_new(size_t bytes)
{
    uintptr_t stack = (uintptr_t)__builtin_frame_address(0);
    if (stack < go_lent.stack || stack >= (uintptr_t)&__heap_base) /* or a goroutine's */
        return gb_object_new_growing(&go_gc, bytes, 0);
    go_lent_block *lent = bytes < SIZE_MAX / 2 ? gb_object_new_growing(&go_gc, sizeof *lent + bytes, 0) : NULL;
    if (!lent)
        return NULL;
    if (stack == go_lent.stack && go_lent.collections == go_gc.stats.collections)
        lent->next = go_lent.first; /* perhaps of the same call: lending does not collect */
    go_lent.first = lent;
    go_lent.stack = stack;
    go_lent.collections = go_gc.stats.collections;
    return lent->block;
}

/* A block with the content of `old`, which may be NULL. Does not collect. NULL: out of memory. */
void *glebe_go_lend(void *old, size_t bytes)
{
    if (!glebe_go_start())
        return NULL;
    size_t size;
    uintptr_t start = gb_object_bounds(&go_gc, (uintptr_t)old, &size);
    char *block = go_lend_new(bytes);
    if (block && start) {
        size -= (uintptr_t)old - start;
        memcpy(block, old, size < bytes ? size : bytes);
    }
    return block;
}

/* ---- a profile ---- */

/* The live objects of one layout and one size. */
typedef struct go_row {
    uint32_t bytes, objects;
    uint32_t words; /* of an element; 0: every word may be a reference */
    uint64_t mask; /* the references among the first 64 words of an element, as bits */
    uintptr_t layout;
} go_row;

static go_row go_row_of(uintptr_t layout)
{
    go_row row = {.words = layout ? (uint32_t)gb_layout_words(layout) : 0, .layout = layout};
    if (layout & 1)
        row.mask = layout >> (1 + GLEBE_GC_LAYOUT_BITS);
    for (uint32_t i = 0; !(layout & 1) && i < row.words && i < 64; i++)
        row.mask |= (uint64_t)(((const glebe_gc_layout *)layout)->bits[i / 8] >> i % 8 & 1) << i;
    return row;
}

/* Adds objects to the row of their layout and size. Returns how many rows there are. */
static uint32_t go_row_add(go_row *rows, uint32_t room, uint32_t count, go_row added)
{
    uint32_t i = 0, known = count < room ? count : room;
    while (i < known && (rows[i].layout != added.layout || rows[i].bytes != added.bytes))
        i++;
    if (i < known)
        rows[i].objects += added.objects;
    else if (i < room)
        rows[i] = added;
    return i < count ? count : i + 1;
}

/* Counts the objects in `rows`. Returns how many rows they need, at most `room` + 1. Right after a collection these
 * are the live objects. */
uint32_t glebe_go_rows(go_row *rows, uint32_t room)
{
    uint32_t count = 0;
    for (uint32_t list = 0; go_gc.heap && list <= GB_CURSORS; list++)
        for (const gb_page *page = gb_list_first(gb_collected_list(&go_gc, list)); page; page = gb_list_next(page)) {
            size_t bytes;
            go_row row = go_row_of(page->layout);
            for (uint32_t i = 0; i < page->cap; i++)
                if (gb_object_bounds(&go_gc, gb_object_start(page, i), &bytes)) {
                    row.bytes = (uint32_t)bytes;
                    row.objects++;
                }
            if (row.objects)
                count = go_row_add(rows, room, count, row);
        }
    for (uint32_t i = 0; i < go_gc.huge.count; i++) {
        const gb_huge_object *huge = (const gb_huge_object *)go_gc.huge.items + i;
        go_row row = go_row_of(huge->layout);
        row.bytes = (uint32_t)(huge->to - huge->from);
        row.objects = 1;
        count = go_row_add(rows, room, count, row);
    }
    return count;
}

/* ---- for C in the same module ---- */

void *malloc(size_t bytes) { return gb_alloc(gb_self, bytes); }
void free(void *block) { gb_free("free", gb_self, block); }
void *calloc(size_t count, size_t bytes) { return gb_calloc(gb_self, count, bytes); }
void *realloc(void *block, size_t bytes) { return glebe_realloc(block, bytes); }
void *aligned_alloc(size_t alignment, size_t bytes) { return glebe_aligned_alloc(alignment, bytes); }
int posix_memalign(void **out, size_t alignment, size_t bytes) { return glebe_posix_memalign(out, alignment, bytes); }
size_t malloc_usable_size(void *block) { return glebe_usable_size(block); }

/* What the C library itself calls: newlocale does in a program with C++. wasi-libc's own malloc has these names too, so
 * without them the linker would either stop, or take a second heap from an archive of wasi-libc. */
void *__libc_malloc(size_t bytes) __attribute__((alias("malloc")));
void __libc_free(void *block) __attribute__((alias("free")));
void *__libc_calloc(size_t count, size_t bytes) __attribute__((alias("calloc")));
void *__libc_realloc(void *block, size_t bytes) __attribute__((alias("realloc")));
