/* The background thread purges freed memory while the process idles, without a call of malloc or free. argv[1]: how
 * many seconds to wait at most. With "fork" a child does the same. */
#include "contract.h"

#include <sys/wait.h>

enum { BLOCKS = 20000, BYTES = 4000 };

static int went_back(int seconds)
{
    static void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        CHECK((blocks[i] = malloc(BYTES)));
        memset(blocks[i], 1, BYTES);
    }
    char *huge = malloc((size_t)64 << 20);
    CHECK(huge);
    memset(huge, 1, (size_t)64 << 20);
    size_t full = resident_bytes();
    free(huge);
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    /* Idle: from here on the process calls only read(2) on an open file. */
    FILE *file = fopen("/proc/self/statm", "r");
    int fd = fileno(file);
    for (int i = 0; i < seconds * 10; i++) {
        char text[128] = {0};
        size_t total = 0, resident = 0;
        sleep_ms(100);
        if (pread(fd, text, sizeof text - 1, 0) <= 0 || sscanf(text, "%zu %zu", &total, &resident) != 2)
            _exit(3);
        if (resident * (size_t)sysconf(_SC_PAGESIZE) < full / 4)
            return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    CHECK(argc > 1);
    int seconds = atoi(argv[1]);
    if (argc > 2) {
        free(kept(malloc(100)));
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            _exit(went_back(seconds) ? 0 : 7);
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    }
    return went_back(seconds) ? 0 : 7;
}
