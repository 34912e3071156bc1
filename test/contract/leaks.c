/* Leaks of many kinds, and blocks that look like leaks and are none, for glebe_leaks() and `glebe leaks`.
 *
 *     leaks            searches, prints a row for each size: bytes of a block, blocks, first blocks; then the sums
 *     leaks wait       the same, then waits, so that the command can look at the same state
 *     leaks busy N     N searches while other threads allocate and free: none may find what is no leak
 *     leaks mean       samples each allocation: prints how many leaked blocks have callers */
#include "contract.h"
#include <glebe.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

struct node { struct node *next, *prev; };
static struct node *linked;
static char *interior;
static __thread void *local;
static void *table[3000], **shared, *volatile last;
static pthread_barrier_t ready;
static atomic_bool over;

static void list(int n, size_t bytes)
{
    struct node *first = NULL;
    while (n-- > 0) {
        struct node *node = calloc(1, bytes);
        node->next = first;
        first = node;
    }
}

static void cycle(size_t bytes)
{
    struct node *a = calloc(1, bytes), *b = calloc(1, bytes);
    a->next = b->prev = b;
    b->next = a->prev = a;
}

static void *leaker(void *unused)
{
    for (int i = 0; i < 7; i++)
        last = malloc(1300);
    last = NULL;
    return unused;
}

/* Ends, and has not been joined: the C library keeps its result. */
static void *giver(void *tid)
{
    *(pid_t *)tid = (pid_t)syscall(SYS_gettid);
    return malloc(6666);
}

/* Its references are on its stack, in its thread-local memory, and in a register of the running thread. */
static void *waiter(void *unused)
{
    void *volatile of_the_stack = malloc(3333);
    local = malloc(4444);
    uintptr_t of_a_register = (uintptr_t)malloc(5555);
    pthread_barrier_wait(&ready);
    while (!atomic_load_explicit(&over, memory_order_relaxed))
        __asm__ volatile("" : "+r"(of_a_register));
    return of_the_stack ? unused : NULL;
}

static __attribute__((noinline)) void plant(void)
{
    list(11, 600);
    cycle(900);
    last = malloc(100000);
    last = malloc(5 << 20);
    last = aligned_alloc(4096, 9000);
    last = aligned_alloc(1 << 16, 1 << 18);
    last = malloc(24);
    last = NULL;
    interior = (char *)malloc(800) + 500;
    linked = malloc(sizeof *linked);
    linked->next = malloc(1000);
    linked->prev = malloc(3 << 20);
    shared = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared[700] = malloc(7777);
    for (int i = 0; i < 3000; i++)
        table[i] = malloc((size_t)i);
    for (int i = 0; i < 3000; i += 3) {
        free(table[i]);
        table[i] = NULL;
    }
}

static __attribute__((noinline)) void wipe(void)
{
    volatile char room[40000];
    memset((char *)room, 0, sizeof room);
}

static struct row {
    size_t bytes;
    int blocks, first;
} rows[100];
static int with_callers;

static void each(void *context, const glebe_leak *leak)
{
    struct row *row = rows;
    while (row->bytes && row->bytes != leak->bytes)
        row++;
    CHECK(row < rows + sizeof rows / sizeof *rows - 1); /* the last one ends the rows */
    row->bytes = leak->bytes;
    row->blocks++;
    row->first += leak->first;
    with_callers += leak->callers_count > 1 && leak->callers[0] != 0;
    free(malloc(*(int *)context)); /* a callback may allocate */
}

static void *busy(void *unused)
{
    enum { BLOCKS = 4096 };
    void **blocks = calloc(BLOCKS, sizeof *blocks);
    uint32_t state = (uint32_t)(uintptr_t)&state;
    while (!atomic_load(&over)) {
        void **slot = blocks + chance(&state) % BLOCKS;
        free(*slot);
        *slot = malloc(chance(&state) % 3000);
    }
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    free(blocks);
    return unused;
}

/* On a loaded machine a thread may take longer to stop than a search waits. */
static int search(glebe_leaks_sums *sums, glebe_leaks_each *every, void *context)
{
    int error;
    do
        error = glebe_leaks(sums, sizeof *sums, every, context);
    while (error == EAGAIN);
    return error;
}

static void while_busy(int rounds)
{
    enum { THREADS = 3 };
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(threads + i, NULL, busy, NULL) == 0);
    for (int i = 0; i < rounds; i++) {
        glebe_leaks_sums sums;
        CHECK(search(&sums, NULL, NULL) == 0);
        CHECK(sums.leaked_blocks == 0 && sums.live_blocks > 0 && sums.threads == THREADS + 1);
    }
    atomic_store(&over, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    glebe_leaks_sums sums;
    pthread_t thread;
    if (strcmp(what, "busy") == 0) {
        while_busy(atoi(argv[2]));
        return 0;
    }
    if (strcmp(what, "mean") == 0)
        CHECK(glebe_profile_start(1) == 0);
    plant();
    CHECK(pthread_create(&thread, NULL, leaker, NULL) == 0);
    pthread_join(thread, NULL);
    pthread_t ended;
    static volatile pid_t tid;
    CHECK(pthread_create(&ended, NULL, giver, (void *)&tid) == 0);
    while (tid == 0 || syscall(SYS_tgkill, getpid(), tid, 0) == 0)
        sched_yield();
    pthread_barrier_init(&ready, NULL, 2);
    CHECK(pthread_create(&thread, NULL, waiter, NULL) == 0);
    pthread_barrier_wait(&ready);
    wipe();
    int bytes = 5000;
    int error = search(&sums, each, &bytes);
    if (error) {
        printf("error %d\n", error);
        return 1;
    }
    CHECK(waitpid(-1, NULL, 0) == -1 && errno == ECHILD); /* the copy is no child that the program sees */
    for (const struct row *row = rows; row->bytes; row++)
        printf("%zu %d %d\n", row->bytes, row->blocks, row->first);
    printf("sums %" PRIu64 " %" PRIu64 " %" PRIu64 " callers %d\n", sums.leaked_blocks, sums.leaked_bytes, sums.threads,
        with_callers);
    fflush(stdout);
    if (strcmp(what, "wait") == 0)
        pause();
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    return 0;
}
