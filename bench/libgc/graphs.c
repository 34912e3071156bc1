/* Graphs of objects by bdwgc's names, to compare libraries with: graphs NAME [ROUNDS]. The ideas are those that
 * collectors have long been measured with (GCBench, quads, pointer tables, binary trees); the code is new.
 *
 * At exit a line on stdout: a checksum, which must be the same on each library; the whole time in microseconds;
 * collections; the process's most resident KiB; and the longest collection in microseconds. Under callgrind, each
 * collection also is a dump of its own, "pause", beside one of the program up to there: so its instructions can be
 * counted, and no clock is needed.
 *
 * A collection is what lies between the library's events START and END: bdwgc and glebe do both in the same call. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <valgrind/callgrind.h>

typedef unsigned long word;
void GC_init(void), GC_gcollect(void), GC_allow_register_threads(void);
void *GC_malloc(size_t bytes), *GC_malloc_atomic(size_t bytes);
int GC_pthread_create(pthread_t *id, const pthread_attr_t *attributes, void *(*function)(void *), void *argument);
int GC_pthread_join(pthread_t id, void **result);
word GC_get_gc_no(void);
void GC_set_on_collection_event(void (*function)(int event));
void GC_register_finalizer_no_order(
    void *object, void (*function)(void *, void *), void *data, void (**old)(void *, void *), void **old_data);
void GC_register_finalizer(
    void *object, void (*function)(void *, void *), void *data, void (**old)(void *, void *), void **old_data);
word GC_make_descriptor(const word *bitmap, size_t words);
void *GC_malloc_explicitly_typed(size_t bytes, word descriptor);
int GC_general_register_disappearing_link(void **link, const void *object);

static void *root; /* what the program keeps */
static word sum;

static void *need(void *object)
{
    if (!object) {
        fprintf(stderr, "graphs: no memory\n");
        exit(1);
    }
    return object;
}
static void *take(size_t bytes) { return need(GC_malloc(bytes)); }
static void *take_plain(size_t bytes) { return need(GC_malloc_atomic(bytes)); }

/* Each thread its own numbers: xorshift. */
static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

/* ---- GCBench: short-lived trees beside a long-lived one and a plain array ---- */

struct node {
    struct node *left, *right;
    word i;
};

static struct node *tree_up(int depth)
{
    struct node *left = depth ? tree_up(depth - 1) : NULL, *right = depth ? tree_up(depth - 1) : NULL;
    struct node *node = take(sizeof *node);
    node->left = left;
    node->right = right;
    return node;
}

/* From the root on: each node is written after its birth. */
static void tree_down(struct node *node, int depth)
{
    if (depth == 0)
        return;
    node->left = take(sizeof *node);
    node->right = take(sizeof *node);
    tree_down(node->left, depth - 1);
    tree_down(node->right, depth - 1);
}

static word tree_count(const struct node *node)
{
    return node ? 1 + tree_count(node->left) + tree_count(node->right) : 0;
}

static word gcbench_once(void)
{
    enum { LONG = 14, ITEMS = 250000 };
    word count = tree_count(tree_up(LONG + 1));
    struct node *kept = take(sizeof *kept);
    double *array = take_plain(ITEMS * sizeof *array);
    tree_down(kept, LONG);
    for (int i = 0; i < ITEMS; i++)
        array[i] = 1.0 / (i + 1);
    for (int depth = 4; depth <= LONG; depth += 2)
        for (int i = 0; i < 2 << (LONG - depth); i++) {
            struct node *short_lived = take(sizeof *short_lived);
            tree_down(short_lived, depth);
            count += tree_count(short_lived) + tree_count(tree_up(depth));
        }
    return count + tree_count(kept) + (array[1000] > 0.0009);
}

static word gcbench_work(int rounds)
{
    word count = 0;
    for (int i = 0; i < rounds; i++)
        count += gcbench_once();
    return count;
}
static void gcbench(int rounds) { sum += gcbench_work(rounds); }

/* ---- threads ---- */

enum { THREADS = 2 };
typedef word work(int rounds);
struct job {
    work *function;
    int rounds;
    word result;
};

static void *job_run(void *data)
{
    struct job *job = data;
    job->result = job->function(job->rounds);
    return NULL;
}

static void by_threads(work *function, int rounds)
{
    struct job jobs[THREADS];
    pthread_t ids[THREADS];
    GC_allow_register_threads();
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (struct job){function, rounds, 0};
        if (GC_pthread_create(&ids[i], NULL, job_run, &jobs[i]))
            need(NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        GC_pthread_join(ids[i], NULL);
        sum += jobs[i].result;
    }
}

static void mt_gcbench(int rounds) { by_threads(gcbench_work, rounds); }

/* ---- binary trees: many that live for a moment, one that stays ---- */

static word trees_work(int rounds)
{
    struct node *kept = tree_up(14);
    word count = 0;
    for (int i = 0; i < 12 * rounds; i++)
        count += tree_count(tree_up(14));
    return count + tree_count(kept);
}
static void trees(int rounds) { sum += trees_work(rounds); }
static void mt_trees(int rounds) { by_threads(trees_work, rounds); }

/* ---- quads: trees of four, of which each round replaces a part ---- */

struct quad {
    struct quad *kids[4];
};

static struct quad *quad_make(int depth)
{
    struct quad *quad = take(sizeof *quad);
    for (int i = 0; depth && i < 4; i++)
        quad->kids[i] = quad_make(depth - 1);
    return quad;
}

static word quad_count(const struct quad *quad)
{
    word count = 1;
    for (int i = 0; quad->kids[0] && i < 4; i++)
        count += quad_count(quad->kids[i]);
    return count;
}

static void quads(int rounds)
{
    struct quad *kept = root = quad_make(9);
    for (int i = 0; i < 48 * rounds; i++)
        kept->kids[i % 4]->kids[i / 4 % 4] = quad_make(7);
    sum += quad_count(kept);
}

/* ---- strings: plain, of 8 to 200 bytes; a table of them is replaced in any order, and some are joined ---- */

static void strings(int rounds)
{
    enum { SLOTS = 20000, TURNS = 1000000 };
    char **table = root = take(SLOTS * sizeof *table);
    uint64_t state = 88172645463325252u;
    for (int i = 0; i < TURNS * rounds; i++) {
        uint64_t r = next(&state);
        size_t slot = r % SLOTS, other = (r >> 20) % SLOTS, bytes = 8 + (r >> 40) % 193;
        char *text = take_plain(bytes);
        memset(text, 'a' + (int)(r >> 60), bytes - 1);
        text[bytes - 1] = 0;
        if (r >> 50 & 1 && table[other] && strlen(table[other]) < 400) {
            char *joined = take_plain(bytes + strlen(table[other]));
            strcpy(stpcpy(joined, text), table[other]);
            text = joined;
        }
        table[slot] = text;
    }
    for (int i = 0; i < SLOTS; i++)
        sum += table[i] ? strlen(table[i]) : 0;
}

/* ---- pointers: a table of records that refer to each other at random, and are replaced at random ---- */

struct record {
    struct record *to[2];
    word id, pad;
};

static void pointers(int rounds, word count)
{
    struct record **table = root = take(count * sizeof *table);
    uint64_t state = 88172645463325252u;
    for (word i = 0; i < count + count / 2 * (word)rounds; i++) {
        word slot = i < count ? i : next(&state) % count;
        struct record *record = take(sizeof *record), *other = table[next(&state) % count];
        record->id = i;
        record->to[0] = other;
        if (other) { /* no endless chain of records that only others keep */
            record->to[1] = table[other->id % count];
            other->to[0] = other->to[1] = NULL;
        }
        table[slot] = record;
    }
    for (word i = 0; i < count; i++)
        sum += table[i]->id;
}
static void pointers_15(int rounds) { pointers(4 * rounds, 15000000 / 40); }
static void pointers_200(int rounds) { pointers(rounds, 200000000 / 40); }
static void pointers_1000(int rounds) { pointers(rounds, 1000000000 / 40); }

/* ---- finalizers, and links that disappear ---- */

static word finalized;
static void tell(void *object, void *data)
{
    (void)object;
    ++*(word *)data;
}

/* Whether the last ones are finalized depends on the stack: so the sum counts objects. */
static void finalizers(int rounds)
{
    enum { SLOTS = 10000, TURNS = 200000 };
    void **table = root = take(SLOTS * sizeof *table);
    uint64_t state = 88172645463325252u;
    for (int i = 0; i < TURNS * rounds; i++) {
        void **object = take(48);
        object[1] = table[i % SLOTS];
        GC_register_finalizer_no_order(object, tell, &finalized, NULL, NULL);
        if (object[1])
            ((void **)object[1])[1] = NULL;
        table[next(&state) % SLOTS] = object;
        sum++;
    }
}

/* A table of weak keys with values, as a runtime has it: the pair is plain, and its link clears it. */
static void links(int rounds)
{
    enum { SLOTS = 20000, TURNS = 200000 };
    struct pair {
        void *hidden;
    };
    struct pair **pairs = root = take(2 * SLOTS * sizeof *pairs);
    void **keys = (void **)pairs + SLOTS;
    for (int i = 0; i < TURNS * rounds; i++) {
        void *key = take(32);
        struct pair *pair = take_plain(sizeof *pair);
        pair->hidden = (void *)~(uintptr_t)key;
        if (GC_general_register_disappearing_link(&pair->hidden, key) > 1)
            need(NULL);
        keys[i % SLOTS] = key;
        pairs[i % SLOTS] = pair;
    }
    for (int i = 0; i < SLOTS; i++)
        sum += pairs[i]->hidden == (void *)~(uintptr_t)keys[i];
}

/* Objects with finalizers that stay, beside short-lived ones without: each collection looks at all the finalizers. */
static void finalizers_kept(int rounds)
{
    enum { KEPT = 50000, TURNS = 1000000 };
    void **table = root = take(KEPT * sizeof *table);
    for (int i = 0; i < KEPT; i++) {
        table[i] = take(32);
        GC_register_finalizer_no_order(table[i], tell, &finalized, NULL, NULL);
    }
    for (int i = 0; i < TURNS * rounds; i++) {
        void **object = table[i % KEPT];
        object[0] = take(48);
    }
    sum += finalized + KEPT;
}

/* Finalizers in order: the head of a list of four first, then the next in a later collection. */
static void finalizers_ordered(int rounds)
{
    enum { SLOTS = 2000, TURNS = 50000 };
    void **table = root = take(SLOTS * sizeof *table);
    for (int i = 0; i < TURNS * rounds; i++) {
        void **head = NULL;
        for (int j = 0; j < 4; j++) {
            void **object = take(32);
            object[0] = head;
            GC_register_finalizer(object, tell, &finalized, NULL, NULL);
            head = object;
        }
        table[i % SLOTS] = head;
        sum += 4;
    }
}

/* A hash table with weak keys whose entries keep their values, as runtimes on bdwgc have it for ephemerons: an entry
 * hides its key, and a link clears it. Whoever walks a chain removes the entries whose keys are gone. */
static void weak_keys(int rounds)
{
    enum { BUCKETS = 4096, LIVE = 20000, TURNS = 200000 };
    struct entry {
        struct entry *next;
        void *value;
        uintptr_t hidden, number;
    };
    static const word refers[1] = {3}; /* the first two words of an entry */
    word layout = GC_make_descriptor(refers, 4);
    struct entry **buckets = root = take((BUCKETS + LIVE) * sizeof *buckets);
    void **keys = (void **)buckets + BUCKETS;
    uint64_t state = 88172645463325252u;
    for (int i = 0; i < TURNS * rounds; i++) {
        struct entry **at = &buckets[next(&state) % BUCKETS];
        for (struct entry **e = at; *e;)
            if ((*e)->hidden)
                e = &(*e)->next;
            else
                *e = (*e)->next;
        word *key = take(32);
        struct entry *entry = need(GC_malloc_explicitly_typed(sizeof *entry, layout));
        entry->next = *at;
        entry->value = take(64);
        entry->number = *key = (word)i;
        entry->hidden = ~(uintptr_t)key;
        if (GC_general_register_disappearing_link((void **)&entry->hidden, key) > 1)
            need(NULL);
        *at = entry;
        keys[next(&state) % LIVE] = key;
    }
    for (int i = 0; i < LIVE; i++)
        sum += keys[i] ? *(word *)keys[i] : 0;
    for (int i = 0; i < BUCKETS; i++)
        for (struct entry *e = buckets[i]; e; e = e->next)
            if (e->hidden && *(word *)~e->hidden != e->number) {
                fprintf(stderr, "graphs: a key is not the entry's\n");
                exit(1);
            }
}

/* ---- */

static const struct graph {
    const char *name;
    void (*run)(int rounds);
} graphs[] = {{"gcbench", gcbench}, {"mt-gcbench", mt_gcbench}, {"trees", trees}, {"mt-trees", mt_trees},
    {"quads", quads}, {"strings", strings}, {"pointers-15", pointers_15}, {"pointers-200", pointers_200},
    {"pointers-1000", pointers_1000}, {"finalizers", finalizers}, {"finalizers-kept", finalizers_kept},
    {"finalizers-ordered", finalizers_ordered}, {"links", links}, {"weak-keys", weak_keys}};

static uint64_t began_us, longest_us;

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

static void event(int which)
{
    if (which == 0) {
        CALLGRIND_DUMP_STATS_AT("program");
        began_us = now_us();
    } else if (which == 5) {
        uint64_t took = now_us() - began_us;
        CALLGRIND_DUMP_STATS_AT("pause");
        longest_us = took > longest_us ? took : longest_us;
    }
}

static word peak_kib(void)
{
    char line[200];
    word kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, "VmHWM:", 6))
            kib = strtoul(line + 6, NULL, 10);
    if (status)
        fclose(status);
    return kib;
}

int main(int count, char **arguments)
{
    const struct graph *graph = graphs, *end = graphs + sizeof graphs / sizeof *graphs;
    int rounds = count > 2 ? atoi(arguments[2]) : 1;
    if (count == 1) {
        for (; graph < end; graph++)
            puts(graph->name);
        return 0;
    }
    while (graph < end && strcmp(graph->name, arguments[1]) != 0)
        graph++;
    if (graph == end || rounds < 1) {
        fprintf(stderr, "graphs: no such graph, or number of rounds\n");
        return 2;
    }
    GC_init();
    GC_set_on_collection_event(event);
    word before = GC_get_gc_no();
    uint64_t from = now_us();
    graph->run(rounds);
    printf("sum %lu us %lu collections %lu peak %lu longest %lu\n", sum, (word)(now_us() - from),
        GC_get_gc_no() - before, peak_kib(), (word)longest_us);
    return 0;
}
