/* Overwrites a part of a free block's link: `partial SIZE BYTES`. Each trial is a child process. It frees most of its
 * blocks, overwrites the first BYTES bytes of one of the two words where a link may be in a freed block, and allocates
 * again. A trial goes through as soon as malloc hands out memory of a live block, or an address far from all others:
 * the next request may end the process. Prints how many trials went through, and how many ended by a signal. */
#include "trial.h"

enum { BLOCKS = 256, LATER = 1024, VALUES = 8, PLACES = 4, AWAY = 64 << 20 };
static char *blocks[BLOCKS], *live[BLOCKS + LATER];

typedef struct attempt {
    size_t size, bytes;
    uint64_t value;
    unsigned place;
} attempt;

static void trial(const void *context)
{
    attempt a = *(const attempt *)context;
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = take(a.size);
    char *freed = NULL, *start = blocks[0];
    for (int i = 0; i < BLOCKS; i++)
        if (i % 8) {
            drop(blocks[i]);
            freed = i == 99 || a.place / 2 ? blocks[i] : freed; /* in the middle of the list, or its first */
            blocks[i] = NULL;
        }
    HIDE(freed);
    memcpy(freed + a.place % 2 * sizeof(void *), &a.value, a.bytes);
    HIDE(freed);
    int lives = 0;
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i])
            live[lives++] = blocks[i];
    for (int n = 0; n < LATER; n++) {
        char *block = take(a.size);
        if ((uintptr_t)block - (uintptr_t)start + AWAY > 2 * (size_t)AWAY)
            _exit(OUTSIDE);
        for (int i = 0; i < lives; i++)
            if (block < live[i] + a.size && live[i] < block + a.size)
                _exit(OVERLAPS);
        live[lives++] = block;
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    static const uint64_t values[VALUES] = {0, 8, 0x1238, UINT64_C(0x4141414141414141), UINT64_MAX, 0x80, 0x10000,
        UINT64_C(0x123456789abcdef0)};
    unsigned through = 0, ended = 0;
    if (argc != 3)
        return 2;
    for (unsigned i = 0; i < VALUES * PLACES; i++) {
        attempt a = {strtoul(argv[1], NULL, 0), strtoul(argv[2], NULL, 0), values[i / PLACES], i % PLACES};
        int status = outcome(trial, &a);
        through += is_through(status);
        ended += status < 0;
    }
    printf("THROUGH %u ENDED %u\n", through, ended);
    return 0;
}
