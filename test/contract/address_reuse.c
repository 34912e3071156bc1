/* Under RLIMIT_AS: after blocks of `argv[1]` KiB are freed, a block of `argv[2]` per cent of the limit, or a thread's
 * stack of that size, gets their address space; and the other way round, repeatedly. */
#include "contract.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>

static void *nothing(void *argument)
{
    return argument;
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY);
    size_t bytes = (size_t)atoi(argv[1]) << 10,
        large = (size_t)limit.rlim_cur / 100 * (size_t)atoi(argv[2]) & ~(size_t)0xffff;
    enum { MOST = 1 << 20 };
    static void *blocks[MOST];
    for (int round = 0; round < 4; round++) {
        size_t n = 0;
        while (n < MOST && (blocks[n] = malloc(bytes)) != NULL)
            *(char *)blocks[n++] = 1;
        CHECK(n < MOST && n * bytes >= large && !malloc(large));
        for (size_t i = 0; i < n; i++)
            free(blocks[i]);
        if (round % 2 == 0) {
            char *block = malloc(large);
            CHECK(block);
            memset(block, 1, large);
            free(block);
        } else {
            malloc_trim(0);
            pthread_attr_t attributes;
            pthread_t thread;
            CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, large) == 0);
            CHECK(pthread_create(&thread, &attributes, nothing, NULL) == 0 && pthread_join(thread, NULL) == 0);
        }
    }
    return 0;
}
