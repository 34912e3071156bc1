/* A bit of everything, with threads and fork, for foreign C libraries, static links and emulators. It uses only
 * functions that musl has too. */
#include "contract.h"

#include <pthread.h>
#include <sys/wait.h>

enum { THREADS = 4, ROUNDS = 4000, SHARED = 256 };

static void *shared[SHARED];
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *seed)
{
    uint32_t state = (uint32_t)(uintptr_t)seed * 77 + 1;
    void *mine[50] = {0};
    for (int i = 0; i < ROUNDS; i++) {
        size_t bytes = any_size(&state);
        unsigned char *block = chance(&state) % 4 == 0 ? calloc(1, bytes) : malloc(bytes);
        CHECK(block && ((uintptr_t)block & 15) == 0);
        block[0] = block[bytes - 1] = 1;
        if (chance(&state) % 8 == 0) {
            block = realloc(block, bytes + bytes / 2 + 1);
            CHECK(block && block[0] == 1);
        }
        if (chance(&state) % 3 == 0) { /* another thread will free it */
            pthread_mutex_lock(&shared_lock);
            void **slot = &shared[chance(&state) % SHARED], *other = *slot;
            *slot = block;
            pthread_mutex_unlock(&shared_lock);
            free(other);
        } else {
            void **slot = &mine[chance(&state) % 50];
            free(*slot);
            *slot = block;
        }
    }
    for (int i = 0; i < 50; i++)
        free(mine[i]);
    void *aligned = NULL;
    CHECK(posix_memalign(&aligned, 65536, 1000) == 0 && ((uintptr_t)aligned & 65535) == 0);
    free(aligned);
    return NULL;
}

static void work_threads(void)
{
    pthread_t threads[THREADS];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < THREADS; i++)
            CHECK(pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)(i + round * 10)) == 0);
        for (int i = 0; i < THREADS; i++)
            CHECK(pthread_join(threads[i], NULL) == 0);
    }
}

int main(void)
{
    work_threads();
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            work_threads();
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    for (int i = 0; i < SHARED; i++)
        free(shared[i]);
    char *line = malloc(100);
    CHECK(line);
    snprintf(line, 100, "page size %ld", sysconf(_SC_PAGESIZE));
    puts(line);
    free(line);
    return 0;
}
