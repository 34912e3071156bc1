/* Enough live objects that several threads mark: GC_MARKERS says how many. A tree, a table of it, and a child that
 * collects after fork, where the other markers are gone. */
#include "check.h"
#include "gc.h"

#include <sys/wait.h>
#include <unistd.h>

enum { DEPTH = 18, NODES = (1 << (DEPTH + 1)) - 1 };

typedef struct node {
    struct node *left, *right;
    uintptr_t number;
} node;

static node **table; /* nodes by number: a huge object */
static uintptr_t made;

static node *grow(int depth)
{
    node *n = GC_malloc(sizeof *n);
    n->number = made++;
    table[n->number] = n;
    if (depth) {
        n->left = grow(depth - 1);
        n->right = grow(depth - 1);
    }
    return n;
}

static uintptr_t count(const node *n)
{
    CHECK(!n || n->number < NODES);
    return n ? 1 + count(n->left) + count(n->right) : 0;
}

static node *root;

static void collect_and_check(void)
{
    size_t before = GC_get_memory_use();
    for (int i = 0; i < 3; i++) {
        void *lost = GC_malloc(100000);
        CHECK(lost);
        GC_gcollect();
        CHECK(count(root) == NODES);
    }
    CHECK(GC_get_memory_use() <= before + 400000);
}

int main(void)
{
    const char *markers = getenv("GC_MARKERS");
    GC_init();
    CHECK(!markers || GC_get_parallel() == atoi(markers) - 1);
    table = GC_malloc(NODES * sizeof *table);
    root = grow(DEPTH);
    CHECK(made == NODES && GC_get_memory_use() > (16u << 20));
    collect_and_check();
    table = NULL; /* only the tree leads to the nodes */
    pid_t child = fork();
    if (child == 0) {
        collect_and_check();
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    collect_and_check();
    puts("well");
    return 0;
}
