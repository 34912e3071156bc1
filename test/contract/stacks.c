/* A heap profile's stacks are those that allocated. Functions with frames of one size, and with frames of a size that
 * changes from call to call (alloca), call each other in random order, on two stacks; the deepest allocates. Each call
 * notes where it returns to.
 *
 *     stacks PROFILE     writes a profile of it, in which each block is a sample, and prints what each path allocated:
 *                        BLOCKS RETURN_ADDRESS..., the innermost first */
#include <alloca.h>
#include <pthread.h>

#include "contract.h"
#include "glebe.h"

enum { ROUNDS = 40000, DEEPEST = 7, PATHS = 1 << (DEEPEST + 2) };

typedef struct path {
    uintptr_t returns[DEEPEST + 1];
    unsigned count, blocks;
} path;

static path paths[2 * PATHS], now;
static unsigned known;
static uint32_t state = 1;

static unsigned drawn(unsigned below)
{
    return chance(&state) % below;
}

static void path_count(void)
{
    unsigned i = 0;
    while (i < known && (paths[i].count != now.count || memcmp(paths[i].returns, now.returns, sizeof now.returns) != 0))
        i++;
    CHECK(i < 2 * PATHS);
    if (i == known)
        paths[known++] = now;
    paths[i].blocks++;
}

static void next(unsigned left);

__attribute__((noinline)) static void leaf(void)
{
    now.returns[now.count++] = (uintptr_t)__builtin_return_address(0);
    path_count();
    free(kept(malloc(100)));
    now.returns[--now.count] = 0;
}

__attribute__((noinline)) static void fixed(unsigned left)
{
    volatile char room[200];
    room[0] = 1;
    now.returns[now.count++] = (uintptr_t)__builtin_return_address(0);
    next(left);
    now.returns[--now.count] = room[0] - 1;
}

__attribute__((noinline)) static void varies(unsigned left)
{
    unsigned bytes = 16 + drawn(left % 2 ? 64 : 3000);
    volatile char *room = alloca(bytes);
    if (drawn(2))
        memset((char *)room, 0, bytes); /* else it is full of return addresses */
    now.returns[now.count++] = (uintptr_t)__builtin_return_address(0);
    next(left);
    room[0] = 1;
    now.returns[--now.count] = 0;
}

/* Inlined, so that each function has three places to return to. */
__attribute__((always_inline)) static inline void next(unsigned left)
{
    if (left == 0)
        leaf();
    else if (drawn(2))
        fixed(left - 1);
    else
        varies(left - 1);
}

/* The outermost calls are the first thread's or the second one's. */
static void *rounds(void *unused)
{
    (void)unused;
    for (int i = 0; i < ROUNDS; i++)
        next(drawn(DEEPEST));
    return NULL;
}

int main(int count, char **words)
{
    pthread_t thread;
    CHECK(count == 2);
    CHECK(glebe_profile_start(1) == 0);
    rounds(NULL);
    CHECK(pthread_create(&thread, NULL, rounds, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    rounds(NULL);
    CHECK(glebe_profile_write(words[1]) == 0);
    for (unsigned i = 0; i < known; i++) {
        printf("%u", paths[i].blocks);
        for (unsigned f = paths[i].count; f > 0; f--)
            printf(" %zx", (size_t)paths[i].returns[f - 1]);
        printf("\n");
    }
    return 0;
}
