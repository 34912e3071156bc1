/* Takes all memory in blocks of one size, frees it, and goes on to the next size. For every size a good part of the
 * limit must be served, and then NULL and ENOMEM, without a report and with a sound heap. */
#include "abuse.h"

static int exhaust(size_t size, void **blocks, size_t most)
{
    size_t n = 0;
    while (n < most && (blocks[n] = malloc(size)) != NULL) {
        memset(blocks[n], 1, size < 64 ? size : 64);
        n++;
    }
    if (n == most || errno != ENOMEM)
        return 1;
    if (n * size < (size_t)24 << 20)
        return 2;
    for (int i = 0; i < 100; i++) {
        void *out = NULL;
        errno = 0;
        if (calloc(1, (size_t)64 << 20) || errno != ENOMEM)
            return 3;
        if (posix_memalign(&out, 4096, (size_t)64 << 20) != ENOMEM || out)
            return 4;
        if (realloc(blocks[n - 1], (size_t)64 << 20) || ((char *)blocks[n - 1])[0] != 1)
            return 5;
    }
    for (size_t i = 0; i < n; i++)
        free(blocks[i]);
    return 0;
}

int main(void)
{
    static const size_t sizes[] = {(size_t)25 << 20, HUGE_, 1000000, 64, 1000, MEDIUM, 40000, LARGE, 64};
    enum { MOST = 4 << 20 };
    static void *blocks[MOST];
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int error = exhaust(sizes[i], blocks, MOST);
        if (error) {
            abuse_say("round %zu, size %zu: %d\n", i, sizes[i], error);
            return 1;
        }
        int broken = glebe_check(NULL, 2, abuse_broken, NULL);
        if (broken)
            return 2;
    }
    return abuse_end();
}
