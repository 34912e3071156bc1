/* Runs one program and reports its cost.
 *
 *     measure FD [NAME=VALUE...] PROGRAM ARGUMENT...
 *
 * Writes one line to file descriptor FD when the program has ended:
 *
 *     USER_US SYSTEM_US WALL_NS PEAK_RSS_KB MINOR_FAULTS MAJOR_FAULTS EXIT SIGNAL
 *
 * Why a helper, when the driver could call wait4 itself? Peak resident size.
 * At exec the kernel folds the resident size of the *old* image into the
 * process's ru_maxrss, so a child of a driver of 20 MB never shows less than
 * 20 MB. This program is static and small; it passes on about half a megabyte,
 * less than any program linked with the C library. The driver checks that with
 * `tiny.c` before it believes a figure.
 *
 * CPU time and faults are those of the program and of all children that it
 * waited for. Only the child makes the assignments (such as LD_PRELOAD=...),
 * right before the exec, as `env` would; but `env` itself is as large as a
 * hello world.
 *
 * SIGTERM to this helper ends a server: the helper passes it on.
 *
 * SIGALRM ends a program that hangs, after TIME_LIMIT_S seconds: the
 * alarm survives the exec, and almost no program handles it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TIME_LIMIT_S = 180 };

static volatile pid_t child;

static void pass_on(int signal)
{
	kill(child, signal);
}

static long long now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 125;
	int report = atoi(argv[1]);
	if (fcntl(report, F_SETFD, FD_CLOEXEC) != 0)
		return 125;

	long long start = now_ns();
	child = fork();
	if (child < 0)
		return 125;
	if (child == 0) {
		char **program = argv + 2;
		while (*program && strchr(*program, '=') && **program != '/')
			putenv(*program++);
		alarm(TIME_LIMIT_S);
		if (*program)
			execvp(*program, program);
		_exit(127);
	}
	signal(SIGTERM, pass_on);
	int status;
	struct rusage u;
	while (wait4(child, &status, 0, &u) != child)
		if (errno != EINTR)
			return 125;
	long long wall = now_ns() - start;
	char line[256];
	int n = snprintf(line, sizeof line, "%lld %lld %lld %ld %ld %ld %d %d\n",
	                 u.ru_utime.tv_sec * 1000000LL + u.ru_utime.tv_usec,
	                 u.ru_stime.tv_sec * 1000000LL + u.ru_stime.tv_usec, wall, u.ru_maxrss,
	                 u.ru_minflt, u.ru_majflt, WIFEXITED(status) ? WEXITSTATUS(status) : 0,
	                 WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	return write(report, line, (size_t)n) == n ? 0 : 125;
}
