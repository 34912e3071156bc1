/* Counts the instructions of a pool's alloc and free one by one: a child runs them, and this process has it stop after
 * each instruction (ptrace). The loop that stores and loads the pointers is counted alone and subtracted. Linux only,
 * and not under sanitizers. */
#include "../../src/glebe.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { OBJECTS = 100, ROUNDS = 4, MOST = 12 }; /* the most that both together may take */

static glebe_pool *pool;
static void *volatile slots[OBJECTS];

/* Forces live values to memory here, so that the compiler can carry nothing over. */
#define BARRIER() __asm__ volatile("" ::: "memory")

static void run_nothing(void)
{
    for (int i = 0; i < OBJECTS; i++) {
        slots[i] = pool;
        BARRIER();
    }
    for (int i = 0; i < OBJECTS; i++) {
        (void)slots[i];
        BARRIER();
    }
}

static void run_tokens(void)
{
    glebe_pool *p = pool;
    for (int i = 0; i < OBJECTS; i++) {
        slots[i] = glebe_pool_alloc(p, 1);
        BARRIER();
    }
    for (int i = 0; i < OBJECTS; i++) {
        glebe_pool_free(p, slots[i], 1);
        BARRIER();
    }
}

static void run_nodes(void)
{
    glebe_pool *p = pool;
    for (int i = 0; i < OBJECTS; i++) {
        slots[i] = glebe_pool_alloc(p, 7);
        BARRIER();
    }
    for (int i = 0; i < OBJECTS; i++) {
        glebe_pool_free(p, slots[i], 7);
        BARRIER();
    }
}

/* The control: must exceed the bound. */
static void run_malloc(void)
{
    for (int i = 0; i < OBJECTS; i++) {
        slots[i] = glebe_malloc(56);
        BARRIER();
    }
    for (int i = 0; i < OBJECTS; i++) {
        glebe_free(slots[i]);
        BARRIER();
    }
}

/* Instructions of `run`, between two stops of the child. */
static long count(void (*run)(void))
{
    run(); /* fills the lists, and resolves symbols */
    pid_t child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(1);
        raise(SIGSTOP);
        for (int i = 0; i < ROUNDS; i++)
            run();
        raise(SIGUSR1);
        _exit(0);
    }
    int status;
    long steps = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status))
        skip(); /* under an emulator, or in a container that forbids it */
    assert_true(WIFSTOPPED(status));
    while (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) == 0 && waitpid(child, &status, 0) == child
        && WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP)
        steps++;
    assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGUSR1);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return steps;
}

static double pair(void (*run)(void))
{
    return (double)(count(run) - count(run_nothing)) / (ROUNDS * OBJECTS);
}

static void test_pairs(void **state)
{
    (void)state;
    pool = glebe_pool_create(NULL, 8, 16, (size_t)1 << 20, 0);
    double tokens = pair(run_tokens), nodes = pair(run_nodes), control = pair(run_malloc);
    printf("instructions for alloc and free: tokens %.2f, nodes %.2f; malloc and free %.2f\n", tokens, nodes, control);
    assert_true(tokens > 4 && tokens <= MOST);
    assert_true(nodes > 4 && nodes <= MOST);
    assert_true(control > MOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
