/* A program with a cache, in a cgroup whose files it writes itself (test_contract.py mounts an empty folder over
 * /sys/fs/cgroup, in a namespace of its own). When glebe calls back because memory is nearly exhausted, the program
 * drops its cache, and glebe must have returned that memory to the system by the next request.
 *
 * pressure FILE FOLDER [later]      FILE: memory.max, memory.high (unified), memory.limit_in_bytes (old)
 * `later`: the limit is set after the program has run for a while. */
#include "contract.h"
#include "glebe.h"

#include <fcntl.h>

enum { CACHE = 4000, BYTES = 10000 };
static void *cache[CACHE];
static int calls;
static uint64_t used, limit;

static void drop(void *context, uint64_t used_bytes, uint64_t limit_bytes)
{
    CHECK(context == cache);
    calls++;
    used = used_bytes;
    limit = limit_bytes;
    for (int i = 0; i < CACHE; i++) {
        free(cache[i]);
        cache[i] = NULL;
    }
    free(kept(malloc(1000)));
}

static void put(const char *folder, const char *name, const char *text)
{
    char path[1000];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
}

/* After 500 ms any check is due. glebe calls the program at most once a second, so a step is shorter. */
static void go_on(unsigned ms)
{
    for (unsigned i = 0; i < ms; i += 20) {
        for (int k = 0; k < 40; k++)
            free(kept(malloc(100000 + (size_t)k * 16384)));
        sleep_ms(20);
    }
}

int main(int count, char **words)
{
    CHECK(count >= 3);
    const char *folder = words[2], *max = words[1];
    int old = strcmp(max, "memory.limit_in_bytes") == 0, later = count > 3;
    const char *current = old ? "memory.usage_in_bytes" : "memory.current";
    const char *key = old ? "cache 1\ninactive_file 7\ntotal_inactive_file" : "anon 1\ninactive_file";
    char text[200];
    if (strcmp(max, "memory.high") == 0)
        put(folder, "memory.max", later ? "max\n" : "2000000000\n");
    put(folder, max, later ? old ? "9223372036854771712\n" : "max\n" : "1000000000\n");
    put(folder, current, "960000000\n");
    snprintf(text, sizeof text, "%s 100000000\nactive_file 5\n", key); /* 86 %: unused files do not count */
    put(folder, "memory.stat", text);
    for (int i = 0; i < 9000; i++)
        memset(kept(malloc(BYTES)), 1, BYTES);
    for (int i = 0; i < CACHE; i++)
        memset(cache[i] = kept(malloc(BYTES)), 1, BYTES);
    glebe_on_pressure(drop, cache);
    go_on(500);
    CHECK(calls == 0);
    size_t before = resident_bytes();
    snprintf(text, sizeof text, "%s 1000000\nactive_file 5\n", key);
    put(folder, "memory.stat", text);
    if (later) {
        CHECK(calls == 0);
        put(folder, max, "1000000000\n");
    }
    for (int i = 0; i < 3000 && calls == 0; i++)
        go_on(20);
    CHECK(calls == 1 && used == 959000000 && limit == 1000000000);
    for (int i = 0; i < 3000 && resident_bytes() + (size_t)CACHE * BYTES / 10 * 9 >= before; i++)
        go_on(20);
    CHECK(before - resident_bytes() > (size_t)CACHE * BYTES / 10 * 9);
    return 0;
}
