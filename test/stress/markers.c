/* Several threads mark one collector's objects: graphs with random references, of all layouts, large and huge arrays,
 * and objects whose references a function names. Each collection, with helpers and without, must find exactly the
 * objects that a search of the program's own finds, and leave their contents alone. */
#include "stress.h"

#include "../../src/gc/gc.h"

enum { OBJECTS = 100000, ARRAY = 3000, LONG_ARRAY = 200000, WORDS = 24 };

static uintptr_t *objects[OBJECTS + 2]; /* a root */
static bool reached[OBJECTS + 2];
static int pending[OBJECTS + 2];

/* An object: its number, its kind, then references; the last word is a check sum. Disguised ones hold complements. */
enum { SCANNED, LAYOUT, DISGUISED, PLAIN, SHAPES };

static void mark_disguised(glebe_gc *gc, void *object, size_t bytes, const glebe_gc_kind *kind)
{
    const uintptr_t *words = object;
    REQUIRE(kind && bytes >= WORDS * sizeof *words);
    for (int i = 2; i < 6; i++)
        glebe_gc_mark_object(gc, (const void *)~words[i]);
    uintptr_t more[2] = {~words[6], ~words[7]};
    glebe_gc_mark(gc, more, more + 2);
}
static const glebe_gc_kind disguised = {0, mark_disguised};

static uintptr_t *make(glebe_gc *gc, uintptr_t number, uint64_t *state)
{
    size_t bytes = WORDS * sizeof(uintptr_t);
    uintptr_t shape = number >= OBJECTS ? SCANNED : stress_below(state, SHAPES);
    uintptr_t *object = number == OBJECTS ? glebe_gc_alloc(gc, ARRAY * sizeof(uintptr_t))
        : number > OBJECTS                ? glebe_gc_alloc(gc, LONG_ARRAY * sizeof(uintptr_t))
        : shape == SCANNED                ? glebe_gc_alloc(gc, bytes)
        : shape == LAYOUT                 ? glebe_gc_alloc_layout(gc, bytes, GLEBE_GC_LAYOUT(WORDS, 0xfc))
        : shape == PLAIN                  ? glebe_gc_alloc_plain(gc, bytes)
                                          : glebe_gc_alloc_layout(gc, bytes, GLEBE_GC_KIND(&disguised));
    REQUIRE(object);
    object[0] = number;
    object[1] = shape;
    object[WORDS - 1] = number * 13 + shape;
    return object;
}

static int references_of(uintptr_t number)
{
    return number == OBJECTS ? ARRAY : number > OBJECTS ? LONG_ARRAY : 8;
}

/* Calls go_to for each reference of the object. */
static int search_from(const uintptr_t *object, int count)
{
    REQUIRE(object[WORDS - 1] == object[0] * 13 + object[1]);
    for (int i = 2; i < references_of(object[0]) && object[1] != PLAIN; i++) {
        uintptr_t word = i == WORDS - 1 ? 0 : object[1] == DISGUISED ? ~object[i] : object[i];
        const uintptr_t *other = (const uintptr_t *)(word & ~(uintptr_t)15); /* some point inside */
        if (other && word != ~(uintptr_t)0 && !reached[other[0]]) {
            reached[other[0]] = true;
            pending[count++] = (int)other[0];
        }
    }
    return count;
}

static uint64_t search(uintptr_t *const *first, uintptr_t *const *all)
{
    uint64_t found = 0;
    memset(reached, 0, sizeof reached);
    int count = 0;
    for (int i = 0; i < 3; i++)
        if (first[i] && !reached[first[i][0]]) {
            reached[first[i][0]] = true;
            pending[count++] = (int)first[i][0];
        }
    for (; count; found++) {
        count--;
        count = search_from(all[pending[count]], count);
    }
    return found;
}

static void refer(uintptr_t *object, uint64_t *state)
{
    for (int i = 2; i < references_of(object[0]); i++) {
        if (i == WORDS - 1 || object[1] == PLAIN)
            continue;
        uintptr_t word = stress_below(state, 10) < 6 ? 0 : (uintptr_t)objects[stress_below(state, OBJECTS)];
        word = word && object[1] != LAYOUT ? word + stress_below(state, 9) : word;
        object[i] = object[1] == DISGUISED ? ~word : word;
    }
}

static uint64_t marked(glebe_gc *gc)
{
    glebe_gc_stats stats;
    glebe_gc_collect(gc);
    glebe_gc_stats_read(gc, &stats);
    return stats.marked_objects;
}

static uint64_t by_helpers;

static void round_of(uint64_t *state)
{
    static uintptr_t *all[OBJECTS + 2], *roots[3];
    glebe_gc *gc = glebe_gc_create(0);
    REQUIRE(gc && glebe_gc_root_add(gc, objects, sizeof objects) == 0
        && glebe_gc_root_add(gc, roots, sizeof roots) == 0);
    for (uintptr_t i = 0; i < OBJECTS + 2; i++)
        objects[i] = make(gc, i, state);
    for (uintptr_t i = 0; i < OBJECTS + 2; i++)
        refer(objects[i], state);
    gc->helpers = (uint32_t)stress_threads - 1;
    REQUIRE(marked(gc) == OBJECTS + 2);
    memcpy(all, objects, sizeof all);
    for (int i = 0; i < 3; i++)
        roots[i] = all[stress_below(state, 2) ? OBJECTS + stress_below(state, 2) : stress_below(state, OBJECTS)];
    memset(objects, 0, sizeof objects);
    uint64_t found = search(roots, all);
    for (int i = 0; i < 3; i++) {
        gc->helpers = i == 1 ? 0 : (uint32_t)stress_threads - 1;
        uint64_t count = marked(gc);
        REQUIRE(count == found && search(roots, all) == found);
    }
    REQUIRE(glebe_gc_check(gc, stress_broken, NULL) == 0);
    by_helpers += gc->scanned_by[1];
    REQUIRE(gc->scanned_by[0] > 0 && gc->team == NULL);
    glebe_gc_destroy(gc);
}

int main(int count, char **words)
{
    stress_start(count, words, 2, 4);
    uint64_t state = stress_seed;
    for (int round = 0; round < stress_rounds; round++)
        round_of(&state);
    printf("%llu objects scanned by helpers\n", (unsigned long long)by_helpers);
    return 0;
}
