/* A limit on address space that the program sets on itself after it has run for a while, as with Python's
 * resource.setrlimit. */
#include "scale.h"
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

static void *nothing(void *unused)
{
    char *block = ask(1000);
    if (block)
        *block = 1;
    give(block);
    merge_longest();
    return unused;
}

/* Other users of address space. Returns how many failed. */
static size_t others_fail(void)
{
    enum { THREADS = 8, MIB = 1 << 20 };
    pthread_t threads[THREADS];
    size_t failed = 0, started = 0;
    while (started < THREADS && pthread_create(&threads[started], NULL, nothing, NULL) == 0)
        started++;
    failed += THREADS - started;
    while (started)
        pthread_join(threads[--started], NULL);
    void *at = mmap(NULL, 64 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        failed++;
    else
        munmap(at, 64 * MIB);
    void *library = dlopen("libresolv.so.2", RTLD_NOW);
    if (!library)
        failed++;
    else
        dlclose(library);
    return failed;
}

/* MIB BEYOND BYTES. The limit is MIB, or MIB more than the process has. malloc serves blocks of BYTES up to it and
 * returns NULL beyond it. Then all are freed, and everything works as before. */
void limit_case(const size_t *argument)
{
    size_t room = argument[0] << 20, bytes = argument[2], most = room / bytes * 4 + 64, granted = 0;
    char **at = outside(most * sizeof *at), *before[100];
    begin();
    for (size_t i = 0; i < 100; i++)
        before[i] = ask(16 + mixed(i) % 5000);
    size_t has = status_kb("VmSize:") << 10, limit = argument[1] ? has + room : room;
    say("address_mb", (double)has / (1 << 20));
    struct rlimit set = {limit, limit};
    if (setrlimit(RLIMIT_AS, &set) != 0)
        die("setrlimit");
    say("others_failed", (double)others_fail());
    for (int round = 0; round < 2; round++) {
        errno = 0;
        for (granted = 0; granted < most && (at[granted] = malloc(bytes)); granted++)
            stamp(at[granted], bytes, granted, bytes > 1 << 16);
        say(round ? "again_of_limit" : "granted_of_limit", (double)granted * (double)bytes / (double)room);
        if (granted < most && errno != ENOMEM)
            say("wrong_errno", errno);
        mappings();
        for (size_t i = 0; i < granted; i++) {
            check_stamp(at[i], bytes, i, bytes > 1 << 16);
            give(at[i]);
        }
    }
    for (size_t i = 0; i < 100; i++)
        give(before[i]);
    nap(700); /* purging takes some time */
    for (int i = 0; i < 1000; i++)
        give(ask(100));
    say("others_failed_after", (double)others_fail());
}
