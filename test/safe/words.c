/* Sweeps find each word of a block, in each kind of block. A holder of BYTES has pointers to freed blocks in some of
 * its words: in all, in about every second one, in few. While they are there, none of these blocks is used again; once
 * they are gone, most are.
 *
 *     words BYTES     0: the holder is data. Prints, for each share of the words, how many blocks had a pointer, how
 *                     many of them came back while they had, and how many afterwards */
#include "../contract/contract.h"

enum { TARGET = 48, MOST = 4000, CHURN = 400000, RING = 1000 };

static uintptr_t targets[MOST]; /* complemented, so these hold nothing */
static int count;

static int compare(const void *a, const void *b)
{
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return x < y ? -1 : x > y;
}

static uint64_t mixed(uint64_t x)
{
    x *= UINT64_C(0x9e3779b97f4a7c15);
    return x ^ x >> 29;
}

/* Allocates and frees blocks of their size, and marks which of them come back. Returns their number. */
static __attribute__((noinline)) int came_back(void)
{
    static uintptr_t ring[RING];
    static char seen[MOST];
    int found = 0;
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < CHURN; i++) {
        if (ring[i % RING])
            free((void *)~ring[i % RING]);
        uintptr_t key = ~(uintptr_t)malloc(TARGET), *at = bsearch(&key, targets, (size_t)count, sizeof key, compare);
        ring[i % RING] = key;
        found += at && !seen[at - targets];
        if (at)
            seen[at - targets] = 1;
    }
    for (int i = 0; i < RING; i++) {
        free((void *)~ring[i]);
        ring[i] = 0;
    }
    return found;
}

/* One word in `sparse` of the holder has a pointer to a block, at any of its bytes. */
static __attribute__((noinline)) void fill(void **holder, size_t words, uint64_t sparse)
{
    count = 0;
    for (size_t i = 0; i < words && count < MOST; i++)
        if (mixed(i) % sparse == 0) {
            holder[i] = malloc(TARGET);
            targets[count++] = ~(uintptr_t)holder[i];
        } else
            holder[i] = (void *)(uintptr_t)(i % 3 ? i : UINT64_C(1) << 63 | i);
    for (size_t i = 0; i < words; i++)
        if (mixed(i) % sparse == 0) {
            free(holder[i]);
            holder[i] = (char *)holder[i] + mixed(i + 1) % TARGET;
        }
    qsort(targets, (size_t)count, sizeof *targets, compare);
}

static __attribute__((noinline)) void scrub(void)
{
    volatile char dead[16384];
    memset((void *)dead, 0, sizeof dead);
}

int main(int argc, char **argv)
{
    static void *data[1000];
    static const uint64_t shares[] = {1, 2, 23};
    CHECK(argc == 2);
    size_t bytes = (size_t)atol(argv[1]), words = bytes ? bytes / sizeof *data : sizeof data / sizeof *data;
    void **holder = bytes ? malloc(bytes) : data;
    for (int i = 0; i < 3; i++) {
        fill(holder, words, shares[i]);
        scrub();
        int held = came_back();
        memset(holder, 0, words * sizeof *holder);
        scrub();
        printf("%d %d %d\n", count, held, came_back());
    }
    return 0;
}
