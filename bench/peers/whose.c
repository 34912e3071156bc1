/* Whose malloc is this?
 *
 *     LD_PRELOAD=/x/foo.so ./whose foo.so
 *
 * prints the file that malloc and its family come from, and exits with 1 unless
 * each comes from a file with the given name. That a
 * library was preloaded does not mean that it took over: a missing export or a
 * version script would leave the program with the C library's malloc, and a
 * benchmark would compare that with itself.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *base(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

int main(int argc, char **argv)
{
	static const char *const names[] = {
		"malloc", "free", "calloc", "realloc", "posix_memalign", "aligned_alloc",
		"memalign", "malloc_usable_size",
	};
	int strangers = 0;

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		Dl_info info = {0};
		void *f = dlsym(RTLD_DEFAULT, names[i]);
		const char *file = f && dladdr(f, &info) ? info.dli_fname : "(none)";
		printf("%s: %s\n", names[i], file);
		if (argc > 1 && strcmp(base(file), base(argv[1])) != 0)
			strangers++;
	}
	/* And it works: allocate and free a block of each kind. */
	char *p = realloc(calloc(1, 100), 100000);
	if (!p || p[99] != 0)
		strangers++;
	free(p);
	return strangers != 0;
}
