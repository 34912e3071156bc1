/* Preloaded. With SEEING_SAMPLE the process samples its allocations, a byte in SEEING_MEAN or 512 KiB, and writes
 * nothing. At its exit, after the handlers of atexit, it writes its heap profile to SEEING_PROFILE, if glebe has one;
 * with SEEING_STAY it then stops until it is killed.
 *
 * With SEEING_SLOWER=N its clocks say how much processor time it took, divided by N. Under valgrind a program takes 50
 * times as long, and more on a busy machine; without this, what malloc does each so many milliseconds would count 50
 * times, and differ from run to run. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

extern int glebe_profile_start(size_t) __attribute__((weak));
extern int glebe_profile_write(const char *) __attribute__((weak));

int clock_gettime(clockid_t clock, struct timespec *t)
{
    static long slower;
    if (slower == 0) {
        const char *asked = getenv("SEEING_SLOWER");
        slower = asked ? strtol(asked, NULL, 10) : 1;
    }
    long status = syscall(SYS_clock_gettime, slower > 1 ? CLOCK_PROCESS_CPUTIME_ID : clock, t);
    if (status == 0 && slower > 1) {
        long long ns = (t->tv_sec * 1000000000LL + t->tv_nsec) / slower;
        *t = (struct timespec){ns / 1000000000, ns % 1000000000};
    }
    return (int)status;
}

__attribute__((constructor)) static void sample(void)
{
    const char *mean = getenv("SEEING_MEAN");
    if (getenv("SEEING_SAMPLE") && glebe_profile_start)
        glebe_profile_start(mean ? strtoul(mean, NULL, 10) : 512 << 10);
}

__attribute__((destructor)) static void stay(void)
{
    const char *path = getenv("SEEING_PROFILE");
    if (path && glebe_profile_write)
        glebe_profile_write(path);
    if (getenv("SEEING_STAY"))
        raise(SIGSTOP);
}
