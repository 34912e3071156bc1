/* Misuses guarded blocks, in the way that the first argument names. With GLEBE_GUARD=1 each block is guarded, but
 * for those that were on a thread free list when the guards began. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 64, TURNS = 4 };
static sigjmp_buf out;
static volatile sig_atomic_t seen;

/* Whether the byte cannot be read: the kernel says so, without a fault. */
static int is_closed(const char *address)
{
    static int ends[2];
    char byte;
    if (!ends[1] && pipe(ends))
        exit(9);
    return write(ends[1], address, 1) != 1 || read(ends[0], &byte, 1) != 1;
}

__attribute__((noinline)) static char *make(void) { return malloc(BYTES); }
__attribute__((noinline)) static void give(char *block) { free(block); }
__attribute__((noinline)) static void poke(volatile char *block, long at) { block[at] = 1; }
__attribute__((noinline)) static char peek(const volatile char *block, long at) { return block[at]; }

static int is_guarded(const char *block)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const char *start = block - (size_t)block % page;
    return is_closed(start - 1) && is_closed(start + page);
}

static char *take(void)
{
    for (int i = 0; i < 10000; i++) {
        char *block = make();
        if (is_guarded(block))
            return block;
    }
    exit(9);
}

/* Returns a block that ends where its page does, or one that begins there. */
static char *block_at(int begins)
{
    for (int i = 0; i < 2 * TURNS; i++) {
        char *block = take();
        if (((size_t)block % (size_t)sysconf(_SC_PAGESIZE) == 0) == begins)
            return block;
    }
    exit(9);
}

static void say_address(const char *block, long at)
{
    char line[64];
    int n = snprintf(line, sizeof line, "ADDRESS 0x%zx\n", (size_t)block + (size_t)at);
    if (write(1, line, (size_t)n) != n)
        _exit(9);
}

static void leave(int number)
{
    seen = number;
    siglongjmp(out, 1);
}

static void repair(int number, siginfo_t *info, void *context)
{
    (void)context;
    seen = number;
    mprotect(info->si_addr, 1, PROT_READ | PROT_WRITE);
}

static struct sigaction before;

/* Calls the handler that was there before, as the handlers of crash reporters do. */
static void chain(int number, siginfo_t *info, void *context)
{
    if (before.sa_flags & SA_SIGINFO)
        before.sa_sigaction(number, info, context);
    else
        before.sa_handler(number);
}

static void end(int number)
{
    (void)number;
    _exit(3);
}

static void *run(void *block)
{
    give(block);
    return NULL;
}

/* A fault of the program's own, outside of all blocks. */
static char *own_place(void)
{
    return mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* With SA_NODEFER: the handler faults itself. */
static void fault_again(int number)
{
    if (seen == number)
        _exit(4);
    seen = number;
    poke(own_place(), 0);
}

#define HANDLERS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#define HANDLER(n) \
    static void handler_##n(int number) { _exit(number + n); }
#define HANDLER_NAME(n) handler_##n,
HANDLERS(HANDLER)
static void (*const handlers[])(int) = {HANDLERS(HANDLER_NAME)};

/* Returns how many of many blocks are guarded once the program has had so many handlers. */
static int guarded_after(int count)
{
    int guarded = 0;
    for (int i = 0; i < count; i++) {
        signal(SIGSEGV, handlers[i]);
        for (int k = 0; k < 1000; k++)
            give(make()); /* one of them is guarded, for which glebe looks whose handler there is */
    }
    for (int i = 0; i < 1000; i++) {
        char *block = make();
        guarded += is_guarded(block);
        give(block);
    }
    return guarded;
}

int main(int count, char **words)
{
    const char *way = count > 1 ? words[1] : "";
    char stack[65536], *block = NULL;
    if (strcmp(way, "overflow") == 0) {
        block = block_at(0);
        say_address(block, BYTES + 8);
        poke(block, BYTES + 8);
    } else if (strcmp(way, "underflow") == 0) {
        block = block_at(1);
        say_address(block, -1);
        poke(block, -1);
    } else if (strcmp(way, "near") == 0) { /* before a block that ends where its page does: found when it is freed */
        block = block_at(0);
        say_address(block, 0);
        poke(block, -1);
        give(block);
    } else if (strcmp(way, "after-free") == 0 || strcmp(way, "thread") == 0) {
        block = take();
        say_address(block, 5);
        pthread_t thread;
        if (*way == 't' && (pthread_create(&thread, NULL, run, block) || pthread_join(thread, NULL)))
            return 9;
        if (*way == 'a')
            give(block);
        peek(block, 5);
    } else if (strcmp(way, "twice") == 0 || strcmp(way, "unguarded") == 0) {
        block = *way == 't' ? take() : make();
        say_address(block, 0);
        for (int frees = count > 2 ? atoi(words[2]) : 2; frees > 0; frees--)
            give(block);
    } else if (strcmp(way, "fork") == 0) {
        block = take();
        give(block);
        say_address(block, 5);
        pid_t child = fork();
        if (child == 0)
            peek(block, 5);
        int status;
        return waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT ? 0 : 9;
    } else if (strcmp(way, "handler") == 0 || strcmp(way, "jump") == 0) {
        struct sigaction action = {.sa_sigaction = repair, .sa_flags = SA_SIGINFO};
        stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
        if (*way == 'j') {
            action.sa_handler = leave;
            action.sa_flags = SA_ONSTACK;
            sigaltstack(&own, NULL);
        }
        sigaction(SIGSEGV, &action, NULL);
        for (int i = 0; i < 3; i++) {
            char *place = own_place();
            seen = 0;
            give(take()); /* looks whose handler there is */
            if (sigsetjmp(out, 1) == 0)
                poke(place, 0);
            if (!seen)
                return 9;
        }
        if (sigsetjmp(out, 1) == 0)
            raise(SIGSEGV);
        block = take();
        say_address(block, 5);
        give(block);
        peek(block, 5);
    } else if (strcmp(way, "own-fault") == 0) {
        give(take());
        poke(own_place(), 0);
    } else if (strcmp(way, "restored") == 0 || strcmp(way, "chained") == 0 || strcmp(way, "nested") == 0) {
        struct sigaction ends = {.sa_handler = end}, chains = {.sa_sigaction = chain, .sa_flags = SA_SIGINFO},
                         again = {.sa_handler = fault_again, .sa_flags = SA_NODEFER};
        for (int i = 0; i < (*way == 'r' ? 20 : 1); i++) {
            sigaction(SIGSEGV, *way == 'n' ? &again : &ends, &before);
            give(take());
            if (*way == 'c')
                sigaction(SIGSEGV, &chains, &before);
            if (*way == 'r')
                sigaction(SIGSEGV, &before, NULL);
            give(take());
        }
        poke(own_place(), 0);
    } else if (strcmp(way, "sent") == 0) {
        give(take());
        raise(SIGSEGV);
    } else if (strcmp(way, "ignored") == 0) {
        signal(SIGSEGV, SIG_IGN);
        give(take());
        raise(SIGSEGV);
    } else if (strcmp(way, "handlers") == 0 && count > 2)
        printf("%d\n", guarded_after(atoi(words[2])));
    else
        return 9;
    return 0;
}
