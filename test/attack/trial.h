/* A trial is an attack in a process of its own, since many of them die. */
#ifndef TRIAL_H
#define TRIAL_H

#include "attack.h"

#include <sys/resource.h>
#include <sys/wait.h>

/* How a trial ends that goes through: malloc handed out memory of a live block, or of no block of the heap. */
enum { OVERLAPS = 10, OUTSIDE = 11 };

/* Runs a trial, which ends by _exit, in a child without messages and core files. Returns its exit status; -1: a signal
 * ended it. */
static int outcome(void (*trial)(const void *context), const void *context)
{
    pid_t child = fork();
    if (child < 0)
        exit(2);
    if (child == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        fclose(stderr);
        trial(context);
    }
    int status;
    if (waitpid(child, &status, 0) != child)
        exit(2);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool is_through(int outcome)
{
    return outcome == OVERLAPS || outcome == OUTSIDE;
}

#endif
