/* dlopen and dlclose of a plugin that uses glebe, in a loop, while threads that used it still live; they end after the
 * plugin is unloaded. A thread's end must not call unloaded code, and memory must not grow with every round. */
#include "contract.h"

#include <dlfcn.h>
#include <pthread.h>

enum { ROUNDS = 100, THREADS = 3 };

static pthread_barrier_t used, closed;
static int (*run)(unsigned);

static void *work(void *seed)
{
    CHECK(run((unsigned)(uintptr_t)seed) == 0);
    pthread_barrier_wait(&used);
    pthread_barrier_wait(&closed);
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    size_t early = 0;
    for (int round = 0; round < ROUNDS; round++) {
        void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        if (!plugin)
            fprintf(stderr, "%s\n", dlerror());
        CHECK(plugin);
        *(void **)&run = dlsym(plugin, "plugin_run");
        CHECK(run);
        pthread_barrier_init(&used, NULL, THREADS + 1);
        pthread_barrier_init(&closed, NULL, THREADS + 1);
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++)
            CHECK(pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)(round * 10 + i)) == 0);
        CHECK(run((unsigned)round) == 0);
        pthread_barrier_wait(&used);
        CHECK(dlclose(plugin) == 0);
        pthread_barrier_wait(&closed);
        for (int i = 0; i < THREADS; i++)
            CHECK(pthread_join(threads[i], NULL) == 0);
        if (round == 10)
            early = resident_bytes();
    }
    CHECK(resident_bytes() < early + ((size_t)8 << 20));
    return 0;
}
