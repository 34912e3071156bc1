/* Replaces LIVE blocks of LEAST to MOST bytes at random, each ROUNDS times. The cost of a block is the difference
 * between two numbers of rounds, so filling and starting do not count. HOW: 0 all sizes are equally likely, 1 all
 * doublings are, 2 one in sixteen is of 1,000 bytes to 60 KB and the others are of up to 256, 3 vectors that grow by
 * half. */
#include <stdint.h>
#include <stdlib.h>

static uint32_t chance = 1;
static void *blocks[LIVE];

static uint32_t below(uint32_t n)
{
    chance = chance * 1664525u + 1013904223u;
    return (chance >> 8) % n;
}

static uint32_t some_bytes(void)
{
    if (HOW == 1) {
        uint32_t from = 31 - (uint32_t)__builtin_clz(LEAST), to = 31 - (uint32_t)__builtin_clz(MOST),
            bytes = 1u << (from + below(to - from));
        return bytes + below(bytes);
    }
    if (HOW == 2)
        return below(16) ? 8 + below(248) : 1000 + below(59000);
    return LEAST + below(MOST - LEAST + 1);
}

int main(void)
{
    static uint32_t lengths[HOW == 3 ? LIVE : 1];
    for (int i = 0; i < LIVE; i++)
        if (!(blocks[i] = malloc(HOW == 3 ? LEAST : some_bytes())))
            return 1;
    for (int n = 0; n < ROUNDS * LIVE; n++) {
        uint32_t i = below(LIVE);
        if (HOW == 3) {
            lengths[i] = lengths[i] < LEAST || lengths[i] > MOST ? LEAST : lengths[i] + lengths[i] / 2;
            blocks[i] = realloc(blocks[i], lengths[i]);
        } else {
            free(blocks[i]);
            blocks[i] = malloc(some_bytes());
        }
        if (!blocks[i])
            return 1;
    }
    return 0;
}
