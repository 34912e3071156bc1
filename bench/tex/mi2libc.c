/* libmimalloc.so.3 for LuaMetaTeX made of the process's malloc: its five imports handed on. So the binary, which Debian
 * links with mimalloc, runs on glibc, or on whatever is preloaded. It costs one jump more for each call. */
#include <stdlib.h>
#include <string.h>

void *mi_malloc(size_t n) { return malloc(n); }
void *mi_calloc(size_t count, size_t n) { return calloc(count, n); }
void *mi_realloc(void *p, size_t n) { return realloc(p, n); }
void mi_free(void *p) { free(p); }
char *mi_strdup(const char *s) { return strdup(s); }
