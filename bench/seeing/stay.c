/* Preloaded. With SEEING_SAMPLE the process samples its allocations, and writes nothing. At its exit, after the
 * handlers of atexit, it writes its heap profile to SEEING_PROFILE, if glebe has one; with SEEING_STAY it then stops
 * until it is killed. */
#include <signal.h>
#include <stdlib.h>

extern int glebe_profile_start(size_t) __attribute__((weak));
extern int glebe_profile_write(const char *) __attribute__((weak));

__attribute__((constructor)) static void sample(void)
{
    if (getenv("SEEING_SAMPLE") && glebe_profile_start)
        glebe_profile_start(0);
}

__attribute__((destructor)) static void stay(void)
{
    const char *path = getenv("SEEING_PROFILE");
    if (path && glebe_profile_write)
        glebe_profile_write(path);
    if (getenv("SEEING_STAY"))
        raise(SIGSTOP);
}
