/* Hello, world: what a process costs before it does anything.
 *
 * The program runs itself as a child, stops the child as it exits, and prints
 * what the child has resident at this moment, its peak:
 *
 *     metric resident_bytes BYTES
 *
 * ru_maxrss is off by up to 250 KB, a fifth of this process. */
#include "bench.h"
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

static void child(char **argv)
{
	char *again[] = {argv[0], "world", NULL};
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGSTOP);
	execv(argv[0], again);
	_exit(1);
}

/* The next stop or end of the child. */
static int next(pid_t pid)
{
	int status;
	if (waitpid(pid, &status, 0) != pid)
		die("the child is gone");
	return status;
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		printf("hello, %s\n", argv[1]);
		return 0;
	}
	pid_t pid = fork();
	if (pid == 0)
		child(argv);
	next(pid);
	ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACEEXIT | PTRACE_O_EXITKILL);
	for (int status;;) {
		ptrace(PTRACE_CONT, pid, NULL, NULL);
		status = next(pid);
		if (!WIFSTOPPED(status))
			die("the child ended unseen");
		if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXIT << 8))
			break;
	}
	printf("metric resident_bytes %zu\n", resident_bytes(pid));
	fflush(stdout);
	ptrace(PTRACE_CONT, pid, NULL, NULL);
	return WEXITSTATUS(next(pid));
}
