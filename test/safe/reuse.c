/* Is a freed block used again while something points into it? For each size, and each place where a pointer may be
 * left: frees a block, leaves a pointer to its middle there, and allocates and frees blocks of that size until a block
 * of a control, to which no pointer is left, is used again. Prints "PLACE SIZE: held", or "reused" if the first block
 * came back, or "control" if even the control never came back. An argument sets how often it tries. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BYTES = 16 << 20 };
static int rounds = 6000;

static void *in_data;
static __thread void *in_tls;
static void **in_block, **in_mapping;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static uintptr_t hidden; /* what the other thread is to hold, complemented */
static int state;

static void set(int to)
{
    pthread_mutex_lock(&lock);
    state = to;
    pthread_cond_broadcast(&change);
    pthread_mutex_unlock(&lock);
}

static void await(int which)
{
    pthread_mutex_lock(&lock);
    while (state != which)
        pthread_cond_wait(&change, &lock);
    pthread_mutex_unlock(&lock);
}

/* Holds the pointer on its stack while it sleeps. */
static __attribute__((noinline)) void hold_on_stack(void)
{
    void *volatile held = (void *)~hidden;
    set(2);
    await(3);
    if (!held)
        abort();
}

static void *sleeper(void *unused)
{
    (void)unused;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL); /* as threads of servers do */
    await(1);
    hold_on_stack();
    set(4);
    return NULL;
}

/* Holds the pointer in a register, while it computes. */
static void *computer(void *unused)
{
    (void)unused;
    await(1);
    uintptr_t held = ~hidden;
    set(2);
    while (__atomic_load_n(&state, __ATOMIC_RELAXED) != 3)
        __asm__ volatile("" : "+r"(held));
    set(4);
    return NULL;
}

static __attribute__((noinline)) uintptr_t allocated(size_t bytes)
{
    char *block = malloc(bytes);
    memset(block, 1, bytes < 4096 ? bytes : 4096);
    return ~(uintptr_t)block;
}

static __attribute__((noinline)) void release(uintptr_t block) { free((void *)~block); }

/* Overwrites what earlier calls left on the stack. */
static __attribute__((noinline)) void scrub(void)
{
    volatile char dead[4096];
    memset((void *)dead, 0, sizeof dead);
}

static int overlap(uintptr_t a, uintptr_t b, size_t bytes) { return a - b < bytes || b - a < bytes; }

static __attribute__((noinline)) int churn(size_t bytes, uintptr_t block, uintptr_t control)
{
    enum { MOST = 64 };
    static uintptr_t blocks[MOST];
    int count = bytes * MOST < BYTES / 4 ? MOST : 4, reused = 0, controls = 0;
    for (int round = 0; round < rounds && !reused && controls < 3; round++) {
        for (int i = 0; i < count; i++) {
            blocks[i] = allocated(bytes);
            reused += overlap(blocks[i], block, bytes);
            controls += overlap(blocks[i], control, bytes);
        }
        for (int i = 0; i < count; i++)
            release(blocks[i]);
        scrub();
    }
    return reused ? 2 : controls ? 1 : 0;
}

static int fails;

static void judge(const char *place, size_t bytes, int result, int want)
{
    static const char *const words[] = {"control", "held", "reused"};
    printf("%s %zu: %s\n", place, bytes, words[result]);
    fails += result != want;
}

static void thread_case(const char *place, void *(*run)(void *), size_t bytes)
{
    pthread_t thread;
    uintptr_t block = allocated(bytes), control = allocated(bytes);
    pthread_create(&thread, NULL, run, NULL);
    hidden = ~(~block + bytes / 2);
    set(1);
    await(2);
    hidden = 0;
    release(block);
    release(control);
    scrub();
    judge(place, bytes, churn(bytes, block, control), 1);
    set(3);
    await(4);
    pthread_join(thread, NULL);
    state = 0;
}

int main(int count, char **words)
{
    rounds = count > 1 ? atoi(words[1]) : rounds;
    static const size_t sizes[] = {16, 40, 200, 2000, 9000, 60000, 100000, 900000, 3000000};
    in_block = calloc(1, sizeof *in_block);
    in_mapping = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void **places[] = {&in_data, &in_tls, in_block, in_mapping};
    static const char *const names[] = {"data", "tls", "block", "mapping"};
    for (size_t s = 0, attempts = 0; s < sizeof sizes / sizeof *sizes; s++) {
        size_t p = s % 4;
        uintptr_t block = allocated(sizes[s]), control = allocated(sizes[s]);
        *places[p] = (void *)(~block + sizes[s] / 2);
        release(block);
        release(control);
        scrub();
        int held = churn(sizes[s], block, control);
        if (attempts == 0 || held != 1) /* one line for each size, however often it is tried */
            judge(names[p], sizes[s], held, 1);
        if (*(volatile char *)*places[p] != 0) {
            printf("the freed block does not read as zero\n");
            fails++;
        }
        *places[p] = NULL;
        int result = churn(sizes[s], block, block);
        if (result == 0 && ++attempts < 4) {
            s--; /* blocks of other sizes got the memory first */
            continue;
        }
        attempts = 0;
        judge("cleared", sizes[s], result, 2);
    }
    thread_case("stack", sleeper, 200);
    thread_case("register", computer, 2000);
    return fails != 0;
}
