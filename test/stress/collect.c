/* Collectors, one for each thread, beside malloc: lists of objects of all sizes and layouts, whose contents are checked
 * while they are reachable; weak references, finalizers, objects freed by hand. In the end no memory is in use.
 *
 * At every allocation all references are in registered roots, so the program also runs where stacks cannot be
 * scanned. */
#include "stress.h"

enum { LISTS = 24, BLOCKS = 50, STEPS = 4000, LONGEST = 400 };

typedef struct node {
    struct node *next;
    unsigned char *payload; /* plain */
    uintptr_t number; /* of the node in its list */
    size_t bytes; /* of the payload */
    uint64_t tag;
} node;

static struct part {
    glebe_gc *gc;
    node *lists[LISTS], *fresh; /* roots */
    unsigned char *payload; /* one too */
    unsigned char *weak[LISTS]; /* the payload of the list's first node, weakly */
    stress_block blocks[BLOCKS]; /* malloc's */
    uint64_t state;
    uint64_t finalizers_set, finalizers_run;
} parts[STRESS_THREADS_MAX];

static void payload_done(void *object, void *context)
{
    REQUIRE(object);
    ((struct part *)context)->finalizers_run++;
}

static stress_block block_of(const node *n) { return (stress_block){n->payload, n->bytes, n->tag}; }

static void list_push(struct part *p, int l)
{
    static const struct { uintptr_t words; uint8_t bits[2]; } words = {sizeof(node) / sizeof(void *), {3, 0}};
    size_t bytes = stress_size(&p->state) + 1;
    node *n;
    REQUIRE((p->payload = glebe_gc_alloc_plain(p->gc, bytes)) != NULL);
    switch (stress_below(&p->state, 3)) {
    case 0: n = glebe_gc_alloc(p->gc, sizeof *n); break;
    case 1: n = glebe_gc_alloc_layout(p->gc, sizeof *n, GLEBE_GC_LAYOUT(sizeof *n / sizeof(void *), 3)); break;
    default: n = glebe_gc_alloc_layout(p->gc, sizeof *n, (uintptr_t)&words);
    }
    REQUIRE(n && n->next == NULL && n->bytes == 0 && n->tag == 0);
    *n = (node){p->lists[l], p->payload, p->lists[l] ? p->lists[l]->number + 1 : 0, bytes, stress_random(&p->state)};
    for (size_t i = 0; i < bytes; i = stress_next(i, bytes))
        REQUIRE(n->payload[i] == 0);
    stress_block b = block_of(n);
    stress_write(&b);
    p->lists[l] = n;
    p->payload = NULL;
    if (stress_below(&p->state, 3) == 0) {
        REQUIRE(glebe_gc_finalizer(p->gc, n->payload, payload_done, p) == 0);
        p->finalizers_set++;
        if (stress_below(&p->state, 3) == 0) {
            REQUIRE(glebe_gc_finalizer(p->gc, n->payload, NULL, NULL) == 0);
            p->finalizers_set--;
        }
    }
}

static void list_look(struct part *p, int l)
{
    uintptr_t number = p->lists[l] ? p->lists[l]->number + 1 : 0;
    for (const node *n = p->lists[l]; n; n = n->next) {
        stress_block b = block_of(n);
        REQUIRE(n->number == --number);
        REQUIRE(glebe_gc_usable_size(p->gc, n->payload + n->bytes / 2) >= n->bytes);
        stress_read(&b, b.bytes);
    }
    REQUIRE(number == 0);
}

/* Drops the list. A later collection frees it and its first payload. */
static void list_drop(struct part *p, int l)
{
    if (!p->lists[l])
        return;
    if (p->weak[l])
        REQUIRE(glebe_gc_weak_remove(p->gc, (void **)&p->weak[l]) == 0);
    p->weak[l] = p->lists[l]->payload;
    REQUIRE(glebe_gc_weak_add(p->gc, (void **)&p->weak[l]) == 0);
    if (stress_below(&p->state, 4) == 0) { /* free the first node by hand; the collector frees its payload */
        node *n = p->lists[l];
        p->lists[l] = n->next;
        glebe_gc_free(p->gc, n);
    }
    p->lists[l] = NULL;
}

static void part_step(struct part *p)
{
    int l = (int)stress_below(&p->state, LISTS);
    stress_block *b = &p->blocks[stress_below(&p->state, BLOCKS)];
    switch (stress_below(&p->state, 24)) {
    case 0: list_drop(p, l); break;
    case 1: list_look(p, l); break;
    case 2:
        if (stress_below(&p->state, 10) == 0)
            glebe_gc_collect(p->gc);
        break;
    case 3: glebe_gc_finalize(p->gc); break;
    case 4:
        stress_drop(b);
        *b = stress_make(&p->state);
        break;
    default:
        if (p->lists[l] && p->lists[l]->number > LONGEST)
            list_drop(p, l);
        else
            list_push(p, l);
    }
}

static void *collect_run(void *number)
{
    struct part *p = &parts[(intptr_t)number];
    p->state = stress_seed * 61 + (uint64_t)(intptr_t)number;
    REQUIRE((p->gc = glebe_gc_create(0)) != NULL);
    REQUIRE(glebe_gc_root_add(p->gc, p->lists, sizeof p->lists) == 0
        && glebe_gc_root_add(p->gc, &p->payload, sizeof p->payload) == 0);
    for (int round = 0; round < stress_rounds; round++) {
        glebe_gc_pace(p->gc, 60, 256 << 10, 0);
        for (int i = 0; i < STEPS; i++)
            part_step(p);
        for (int l = 0; l < LISTS; l++)
            list_look(p, l);
        REQUIRE(glebe_gc_check(p->gc, stress_broken, NULL) == 0);
    }
    for (int l = 0; l < LISTS; l++)
        list_drop(p, l);
    glebe_gc_collect(p->gc); /* objects with finalizers still exist */
    glebe_gc_finalize(p->gc);
    glebe_gc_collect(p->gc);
    glebe_gc_stats stats;
    glebe_gc_stats_read(p->gc, &stats);
    REQUIRE(p->finalizers_run == p->finalizers_set && p->finalizers_run > 0);
    REQUIRE(stats.allocated_objects == stats.freed_objects && stats.allocated_objects > (uint64_t)STEPS
        && stats.heap_bytes == 0);
    for (int l = 0; l < LISTS; l++)
        REQUIRE(p->weak[l] == NULL);
    for (int i = 0; i < BLOCKS; i++)
        stress_drop(&p->blocks[i]);
    glebe_gc_destroy(p->gc);
    return NULL;
}

int main(int count, char **words)
{
    stress_start(count, words, 3, 3);
    stress_run(collect_run);
    stress_end();
    return 0;
}
