/* A TeX-like memory of nodes and tokens and a MetaPost-like pool of numbers: with glebe_pool (-DWITH_POOL), or each
 * object from malloc.
 *
 *     nodes     pages of lines; a line is a list of 80 nodes of 3 to 12 words: glyphs, glue, kerns, boxes; the newest
 *     40
 *               pages stay
 *     tokens    lists of 3 to 40 tokens of 8 bytes, made and dropped as in macro expansion; one in 16 is kept as a
 *               definition, and some of these are redefined
 *     numbers   temporaries of 16 bytes, up to 8 at once; one in 64 is kept in a path's knot
 *     fill      objects of 24 bytes, each written to, for the memory that they take
 *
 *     pool CASE ROUNDS     prints the operations (an allocation or a free), the most bytes in objects, KB resident
 *                          above the start
 *
 * A link is an index of 4 bytes in a pool, and a pointer with malloc. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef WITH_POOL
#include <glebe.h>
static glebe_pool *pool;
typedef uint32_t ref;
static inline void *at(ref r) { return glebe_pool_at(pool, r); }
static inline ref take(size_t words) { return glebe_pool_index(pool, glebe_pool_alloc(pool, words)); }
static inline void give(ref r, size_t words) { glebe_pool_free(pool, at(r), words); }
#else
typedef void *ref;
static inline void *at(ref r) { return r; }
static inline ref take(size_t words) { return malloc(words * 8); }
static inline void give(ref r, size_t words) { (void)words; free(r); }
#endif

typedef struct node {
    ref next;
    uint16_t words, kind;
} node;
typedef struct token {
    ref next;
#ifdef WITH_POOL
    uint32_t info; /* a token is 8 bytes */
#else
    uint64_t info; /* beside a pointer it is 16 */
#endif
} token;

static uint64_t chance = 88172645463325252u, operations, bytes, most_bytes;

static uint32_t below(uint32_t n)
{
    chance ^= chance << 13, chance ^= chance >> 7, chance ^= chance << 17;
    return (uint32_t)((chance >> 32) * n >> 32);
}

static inline void count(size_t words, int taken)
{
    operations++;
    bytes += taken ? words * 8 : 0 - words * 8;
    most_bytes = bytes > most_bytes ? bytes : most_bytes;
}

/* ---- nodes ---- */

enum { PAGES = 40, LINES = 46, LINE_NODES = 80 };
static ref lines[PAGES][LINES];
static const uint8_t node_words[16] = {9, 9, 9, 9, 9, 9, 9, 5, 5, 5, 4, 3, 12, 8, 6, 3};

static ref line_new(void)
{
    ref first = 0;
    for (int i = 0; i < LINE_NODES; i++) {
        uint32_t kind = below(16);
        ref r = take(node_words[kind]);
        node *n = at(r);
        n->words = node_words[kind];
        n->kind = (uint16_t)kind;
        n->next = first;
        ((uint64_t *)n)[n->words - 1] = (uint64_t)kind;
        first = r;
        count(n->words, 1);
    }
    return first;
}

static void line_drop(ref r)
{
    while (r) {
        node *n = at(r);
        ref next = n->next;
        size_t words = n->words;
        give(r, words);
        count(words, 0);
        r = next;
    }
}

static void run_nodes(int rounds)
{
    for (int i = 0; i < rounds; i++)
        for (int line = 0; line < LINES; line++) {
            line_drop(lines[i % PAGES][line]);
            lines[i % PAGES][line] = line_new();
        }
}

/* ---- tokens ---- */

enum { DEFINITIONS = 4096, TOKEN_WORDS = (sizeof(token) + 7) / 8 };
static ref definitions[DEFINITIONS];

static ref tokens_new(void)
{
    ref first = 0;
    for (uint32_t n = 3 + below(38); n > 0; n--) {
        ref r = take(TOKEN_WORDS);
        token *t = at(r);
        t->next = first;
        t->info = n;
        first = r;
        count(TOKEN_WORDS, 1);
    }
    return first;
}

static void tokens_drop(ref r)
{
    while (r) {
        ref next = ((token *)at(r))->next;
        give(r, TOKEN_WORDS);
        count(TOKEN_WORDS, 0);
        r = next;
    }
}

static void run_tokens(int rounds)
{
    for (int i = 0; i < rounds * 100; i++) {
        ref list = tokens_new();
        uint32_t which = below(16 * DEFINITIONS);
        if (which < DEFINITIONS) {
            tokens_drop(definitions[which]);
            definitions[which] = list;
        } else
            tokens_drop(list);
    }
}

/* ---- numbers ---- */

enum { KNOTS = 1 << 16 };
static ref knots[KNOTS];

static void run_numbers(int rounds)
{
    ref temporary[8];
    for (int i = 0; i < rounds * 1000; i++) {
        uint32_t n = 1 + below(8);
        for (uint32_t k = 0; k < n; k++) {
            double *number = at(temporary[k] = take(2));
            number[0] = k;
            number[1] = i;
            count(2, 1);
        }
        uint32_t which = below(64 * KNOTS);
        if (which < KNOTS) {
            ref old = knots[which];
            knots[which] = temporary[--n];
            if (old) {
                give(old, 2);
                count(2, 0);
            }
        }
        while (n > 0) {
            give(temporary[--n], 2);
            count(2, 0);
        }
    }
}

/* ---- fill ---- */

static void run_fill(int rounds)
{
    for (int i = 0; i < rounds * 1000; i++) {
        memset(at(take(3)), 1, 24);
        count(3, 1);
    }
}

static long resident_kb(void)
{
    char line[256];
    long kb = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        sscanf(line, "VmRSS: %ld", &kb);
    if (file)
        fclose(file);
    return kb;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(int rounds);
    } cases[] = {{"nodes", run_nodes}, {"tokens", run_tokens}, {"numbers", run_numbers}, {"fill", run_fill}};
    if (argc != 3)
        return 2;
    memset(lines, 0, sizeof lines), memset(definitions, 0, sizeof definitions), memset(knots, 0, sizeof knots);
    long before = resident_kb();
#ifdef WITH_POOL
    pool = glebe_pool_create(NULL, 8, 12, (size_t)1 << 30, 0);
#endif
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(argv[1], cases[i].name) == 0)
            cases[i].run(atoi(argv[2]));
    printf("%llu %llu %ld\n", (unsigned long long)operations, (unsigned long long)most_bytes, resident_kb() - before);
    return 0;
}
