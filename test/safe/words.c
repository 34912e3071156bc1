/* Sweeps find each word of a block, in each kind of block. A holder of BYTES has pointers to freed blocks in some of
 * its words: in all, in about every second one, in few. While they are there, none of these blocks is used again; once
 * they are gone, most are.
 *
 *     words BYTES     0: the holder is data. Prints, for each share of the words, how many blocks had a pointer, how
 *                     many of them came back while they had, and how many afterwards */
#include "../contract/contract.h"

enum { TARGET = 48, MOST = 4000, CHURN = 100000, FRESH = 40000 };

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

static int found(uintptr_t key)
{
    uintptr_t *at = bsearch(&key, targets, (size_t)count, sizeof key, compare);
    if (at)
        *at &= ~(uintptr_t)1; /* it is not found again: blocks have even addresses */
    return at != NULL;
}

/* Allocates and frees blocks of their size, so that sweeps are due, and then takes more than are free, for ever.
 * Returns how many of the targets came back. */
static __attribute__((noinline)) int came_back(void)
{
    int back = 0;
    for (int i = 0; i < CHURN; i++) {
        uintptr_t block = ~(uintptr_t)malloc(TARGET);
        back += found(block);
        free((void *)~block);
    }
    for (int i = 0; i < FRESH; i++)
        back += found(~(uintptr_t)malloc(TARGET));
    return back;
}

/* One word in `sparse` of the holder has a pointer to a block, at any of its bytes. */
static __attribute__((noinline)) void fill(void **holder, size_t words, uint64_t sparse)
{
    size_t end = 0;
    for (count = 0; end < words && count < MOST; end++)
        if (mixed(end) % sparse == 0) {
            holder[end] = malloc(TARGET);
            targets[count++] = ~(uintptr_t)holder[end];
        } else
            holder[end] = (void *)(uintptr_t)(end % 3 ? end : UINT64_C(1) << 63 | end);
    for (size_t i = 0; i < end; i++)
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
