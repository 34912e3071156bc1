/* An alignment that is no power of two: aligned_alloc and posix_memalign refuse with EINVAL, memalign rounds up.
 *
 * all: served */
#include "abuse.h"

int main(void)
{
    void *out = &out;
    static const size_t odd[] = {0, 3, 24, 48, 100, 4097, SIZE_MAX, SIZE_MAX / 2};
    for (int i = 0; i < 8; i++) {
        volatile size_t alignment = odd[i];
        errno = 0;
        if (aligned_alloc(alignment, 100) || errno != EINVAL)
            return 2;
        errno = 7;
        if (posix_memalign(&out, alignment, 100) != EINVAL || errno != 7 || out != &out)
            return 3;
    }
    if (posix_memalign(&out, 4, 100) != EINVAL || out != &out) /* a power of two, but less than a pointer */
        return 4;
    volatile size_t forty_eight = 48;
    void *block = memalign(forty_eight, 100);
    if (!block || ((uintptr_t)block & 63) != 0)
        return 5;
    free(block);
    errno = 0;
    volatile size_t most = SIZE_MAX;
    if (memalign(most, 1) || (errno != EINVAL && errno != ENOMEM))
        return 6;
    if (!(block = memalign(0 * most, 1)))
        return 7;
    free(block);
    return abuse_end();
}
