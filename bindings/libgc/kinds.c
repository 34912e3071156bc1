/* Kinds, mark procedures and typed objects. bdwgc describes an object's references by a descriptor, a word whose low
 * two bits say what it is:
 *
 *     0  length     the first n bytes may be references      2  procedure    a function of the program names them
 *     1  bitmap     the highest bit is the first word        3  per object   the object, or its type, says it
 *
 * Each descriptor becomes a kind of the core: with a layout where one says the same, otherwise with a function that
 * reads the descriptor while marking. Kinds are never freed; their number is that of the program's types. */
#include "libgc.h"

#include <stdlib.h>

enum { LENGTH, BITMAP, PROCEDURE, PER_OBJECT, TAGS = 3 };
enum { PROCEDURES = 64, RESERVED = 8, INDEX_LOG2 = 6, BIAS = 0x10 };
enum { PLAIN_KIND, NORMAL_KIND, PINNED_KIND, PLAIN_PINNED_KIND, FIRST_KIND, KINDS = 256 };
#define WORD_BITS (8 * sizeof(GC_word))

struct GC_ms_entry { void *opaque; };
typedef struct GC_ms_entry *GC_mark_proc(GC_word *, struct GC_ms_entry *, struct GC_ms_entry *, GC_word);
static GC_mark_proc *procedures[PROCEDURES];
static unsigned procedures_count = RESERVED;

typedef struct described {
    glebe_gc_kind kind; /* the first member: marking passes its address */
    GC_word descriptor;
    size_t element_bytes; /* the descriptor repeats; 0: it does not */
    bool adds_size; /* the object's bytes are added to the descriptor */
    bool is_short; /* typed objects of at most SHORT_WORDS: a bitmap is a layout for them */
    struct described *next;
} described;

static described kinds[KINDS];
static unsigned kinds_count = FIRST_KIND;

/* ---- marking ---- */

/* The program passes these on to GC_mark_and_push, and returns what that returns. The core's own stack is used. */
static struct GC_ms_entry mark_stack[2];

static void described_mark(glebe_gc *gc, GC_word descriptor, GC_word *object, size_t bytes)
{
    switch (descriptor & TAGS) {
    case LENGTH:
        glebe_gc_mark(gc, object, (char *)object + (descriptor < bytes ? descriptor : bytes));
        break;
    case BITMAP:
        descriptor &= ~(GC_word)TAGS;
        for (size_t i = 0; descriptor && i < bytes / sizeof *object; i++, descriptor <<= 1)
            if (descriptor >> (WORD_BITS - 1))
                glebe_gc_mark_object(gc, (const void *)object[i]);
        break;
    case PROCEDURE: {
        GC_mark_proc *procedure = procedures[descriptor >> 2 & (PROCEDURES - 1)];
        if (procedure)
            procedure(object, mark_stack, mark_stack + 1, descriptor >> (2 + INDEX_LOG2));
        break;
    }
    default: {
        GC_word offset = descriptor & ~(GC_word)TAGS;
        if ((long)descriptor < 0) {
            if (*object == 0)
                return; /* fresh: it has no type yet */
            descriptor = *(const GC_word *)(*object - offset - BIAS);
        } else
            descriptor = *(const GC_word *)((const char *)object + offset);
        if (descriptor && (descriptor & TAGS) != PER_OBJECT)
            described_mark(gc, descriptor, object, bytes);
    }
    }
}

static void kind_mark(glebe_gc *gc, void *object, size_t bytes, const glebe_gc_kind *kind)
{
    const described *of = (const described *)kind;
    if (!of->element_bytes) {
        described_mark(gc, of->descriptor + (of->adds_size ? bytes : 0), object, bytes);
        return;
    }
    for (size_t at = 0; at + of->element_bytes <= bytes; at += of->element_bytes)
        described_mark(gc, of->descriptor, (GC_word *)((char *)object + at), of->element_bytes);
}

EXPORT struct GC_ms_entry *GC_mark_and_push(
    void *object, struct GC_ms_entry *top, struct GC_ms_entry *end, void **source)
{
    (void)end, (void)source;
    glebe_gc_mark_object(libgc_gc, object);
    return top;
}

EXPORT void GC_push_all(void *from, void *to) { glebe_gc_mark(libgc_gc, from, to); }
EXPORT void GC_push_all_eager(void *from, void *to) { glebe_gc_mark(libgc_gc, from, to); }
EXPORT void GC_push_conditional(void *from, void *to, int all)
{
    (void)all; /* there is no record of what changed */
    glebe_gc_mark(libgc_gc, from, to);
}
EXPORT void GC_push_finalizer_structures(void) {} /* the core does */
EXPORT void GC_set_mark_bit(const void *object) { glebe_gc_mark_object(libgc_gc, object); }
EXPORT int GC_is_marked(const void *object) { return glebe_gc_marked(libgc_gc, object); }
EXPORT void GC_clear_mark_bit(const void *object)
{
    (void)object;
    REFUSE();
}

/* ---- kinds and procedures ---- */

EXPORT void **GC_new_free_list_inner(void)
{
    void **list = calloc(1, sizeof *list);
    if (!list)
        libgc_warn("no memory for a free list\n", 0);
    return list;
}
EXPORT void **GC_new_free_list(void) { return GC_new_free_list_inner(); }

/* Sets the kind's layout or function. */
static void described_set(described *of)
{
    bool length = of->descriptor == 0 && !of->element_bytes;
    of->kind.layout = length && !of->adds_size ? GB_PLAIN : 0;
    of->kind.mark = length ? NULL : kind_mark;
}

EXPORT unsigned GC_new_kind_inner(void **list, GC_word descriptor, int add_size, int clear)
{
    (void)list, (void)clear; /* new objects are always clear */
    if (kinds_count == KINDS) {
        libgc_warn("GC_new_kind: there are %lu kinds already, and no more can be had\n", KINDS);
        abort();
    }
    described *of = &kinds[kinds_count];
    of->descriptor = descriptor;
    of->adds_size = add_size != 0;
    described_set(of);
    return kinds_count++;
}

EXPORT unsigned GC_new_kind(void **list, GC_word descriptor, int add_size, int clear)
{
    libgc_enter();
    unsigned kind = GC_new_kind_inner(list, descriptor, add_size, clear);
    libgc_leave();
    return kind;
}

EXPORT unsigned GC_new_proc_inner(GC_mark_proc *procedure)
{
    if (procedures_count == PROCEDURES) {
        libgc_warn("GC_new_proc: there are %lu procedures already, and no more can be had\n", PROCEDURES);
        abort();
    }
    procedures[procedures_count] = procedure;
    return procedures_count++;
}

EXPORT unsigned GC_new_proc(GC_mark_proc *procedure)
{
    libgc_enter();
    unsigned index = GC_new_proc_inner(procedure);
    libgc_leave();
    return index;
}

uintptr_t libgc_kind(int number)
{
    if (number < FIRST_KIND && number >= 0)
        return number == PLAIN_KIND || number == PLAIN_PINNED_KIND ? GB_PLAIN : 0;
    if (number < 0 || (unsigned)number >= kinds_count) {
        libgc_warn("kind %lu is not one of GC_new_kind's; its objects are conservative\n", (GC_word)number);
        return 0;
    }
    return GLEBE_GC_KIND(&kinds[number].kind);
}

int libgc_kind_number(const glebe_gc *gc, const void *object)
{
    uintptr_t layout = glebe_gc_layout_of(gc, object);
    const described *of = (const described *)gb_kind_of(layout);
    if (of >= kinds && of < kinds + KINDS)
        return (int)(of - kinds);
    bool pinned = glebe_gc_pinned(gc, object);
    return layout == GB_PLAIN ? (pinned ? PLAIN_PINNED_KIND : PLAIN_KIND) : pinned ? PINNED_KIND : NORMAL_KIND;
}

/* ---- typed objects ---- */

/* Long bitmaps, which their descriptor names by number: it is a procedure's, with the number as its environment. */
enum { LONG_PROCEDURE = RESERVED - 1 };
typedef struct long_bitmap {
    size_t words;
    GC_word bits[];
} long_bitmap;
static const long_bitmap **long_bitmaps;
static size_t long_count;

static struct GC_ms_entry *long_mark(
    GC_word *object, struct GC_ms_entry *top, struct GC_ms_entry *end, GC_word environment)
{
    (void)end;
    const long_bitmap *map = long_bitmaps[environment];
    for (size_t i = 0; i < map->words; i++)
        if (map->bits[i / WORD_BITS] >> i % WORD_BITS & 1)
            glebe_gc_mark_object(libgc_gc, (const void *)object[i]);
    return top;
}

static GC_word long_descriptor(const GC_word *bits, size_t words)
{
    size_t bytes = (words + WORD_BITS - 1) / WORD_BITS * sizeof *bits;
    long_bitmap *map = malloc(sizeof *map + bytes);
    const long_bitmap **maps = realloc(long_bitmaps, (long_count + 1) * sizeof *maps);
    if (maps)
        long_bitmaps = maps;
    if (!map || !maps) {
        free(map);
        return words * sizeof *bits; /* conservative, as documented */
    }
    map->words = words;
    memcpy(map->bits, bits, bytes);
    procedures[LONG_PROCEDURE] = long_mark;
    long_bitmaps[long_count] = map;
    return ((GC_word)long_count++ << INDEX_LOG2 | LONG_PROCEDURE) << 2 | PROCEDURE;
}

EXPORT GC_word GC_make_descriptor(const GC_word *bits, size_t words)
{
    GC_word descriptor = BITMAP;
    while (words && !(bits[(words - 1) / WORD_BITS] >> (words - 1) % WORD_BITS & 1))
        words--;
    if (words == 0)
        return 0;
    if (words > WORD_BITS - 2) {
        libgc_enter();
        descriptor = long_descriptor(bits, words);
        libgc_leave();
        return descriptor;
    }
    for (size_t i = 0; i < words; i++)
        descriptor |= (bits[0] >> i & 1) << (WORD_BITS - 1 - i);
    return descriptor;
}

/* Whether a layout of `words` words can say what this bitmap does: all its bits are among those that layouts have. */
static bool bitmap_fits(GC_word descriptor, size_t words)
{
    size_t bits = words < GLEBE_GC_MASK_BITS ? words : GLEBE_GC_MASK_BITS;
    return bits >= WORD_BITS || (descriptor & ~(GC_word)TAGS) << bits == 0;
}

/* Returns the core's layout of `words` words for a bitmap; 0 if there is none. */
static uintptr_t bitmap_layout(GC_word descriptor, size_t words)
{
    uintptr_t mask = 0;
    if (!bitmap_fits(descriptor, words))
        return 0;
    for (size_t i = 0; i < WORD_BITS - 2; i++)
        mask |= (uintptr_t)(descriptor >> (WORD_BITS - 1 - i) & 1) << i;
    return GLEBE_GC_LAYOUT(words, mask);
}

enum { TYPES = 256, SHORT_WORDS = 63 };
static described *types[TYPES]; /* a hash table of lists */

/* Returns the kind of objects with this descriptor, which are short, or arrays of such elements, or neither. */
static described *type_of(GC_word descriptor, size_t element_bytes, bool is_short)
{
    size_t key = element_bytes ? element_bytes : is_short;
    described **list = &types[(descriptor * GB_GOLDEN >> (WORD_BITS - 8) ^ key) % TYPES];
    for (described *of = *list; of; of = of->next)
        if (of->descriptor == descriptor && of->element_bytes == element_bytes && of->is_short == is_short)
            return of;
    described *of = calloc(1, sizeof *of);
    if (!of)
        return NULL;
    of->descriptor = descriptor;
    of->element_bytes = element_bytes;
    of->is_short = is_short;
    described_set(of);
    if ((descriptor & TAGS) == BITMAP && (is_short || element_bytes)) {
        uintptr_t layout = bitmap_layout(descriptor, element_bytes ? element_bytes / sizeof(GC_word) : SHORT_WORDS);
        of->kind.layout = layout;
        of->kind.mark = layout ? NULL : kind_mark;
    }
    of->next = *list;
    *list = of;
    return of;
}

static void *typed_take(size_t bytes, GC_word descriptor, size_t element_bytes)
{
    if (descriptor == 0)
        return libgc_take(bytes, GB_PLAIN, false);
    bool is_short = !element_bytes && (descriptor & TAGS) == BITMAP
        && bytes + 1 <= SHORT_WORDS * sizeof(GC_word) * 7 / 8 && bitmap_fits(descriptor, SHORT_WORDS);
    libgc_enter();
    const described *of = type_of(descriptor, element_bytes, is_short);
    libgc_leave();
    return libgc_take(bytes, of ? GLEBE_GC_KIND(&of->kind) : 0, false);
}

EXPORT void *GC_malloc_explicitly_typed(size_t bytes, GC_word descriptor) { return typed_take(bytes, descriptor, 0); }
EXPORT void *GC_malloc_explicitly_typed_ignore_off_page(size_t bytes, GC_word descriptor)
{
    return typed_take(bytes, descriptor, 0);
}

EXPORT void *GC_calloc_explicitly_typed(size_t count, size_t bytes, GC_word descriptor)
{
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all))
        return GC_oom_fn(SIZE_MAX);
    bool whole = bytes && bytes % sizeof(GC_word) == 0 && count > 1;
    return typed_take(all, descriptor, whole ? bytes : 0);
}

/* ---- gcj's objects: the first word is the address of a table, whose second word is the descriptor ---- */

EXPORT int GC_gcj_kind, GC_gcj_debug_kind;

EXPORT void GC_init_gcj_malloc(int index, void *procedure)
{
    GC_init();
    libgc_enter();
    if (!GC_gcj_kind) {
        GC_word behind = (GC_word) - (long)(sizeof(GC_word) + BIAS);
        if (index >= 0 && index < PROCEDURES)
            procedures[index] = (GC_mark_proc *)(uintptr_t)procedure;
        GC_gcj_kind = GC_gcj_debug_kind = (int)GC_new_kind_inner(NULL, behind | PER_OBJECT, 0, 1);
    }
    libgc_leave();
}

EXPORT void *GC_gcj_malloc(size_t bytes, void *table)
{
    void **object = GC_gcj_kind ? libgc_take(bytes, libgc_kind(GC_gcj_kind), false) : NULL;
    if (object)
        *object = table;
    return object;
}

EXPORT void *GC_gcj_malloc_ignore_off_page(size_t bytes, void *table) { return GC_gcj_malloc(bytes, table); }
