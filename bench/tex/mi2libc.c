/* A libmimalloc.so.3 for LuaMetaTeX that forwards its five imports to the process's malloc. So the binary, which Debian
 * links with mimalloc, runs on glibc or on a preloaded allocator. It costs one more jump for each call. */
#include <stdlib.h>
#include <string.h>

void *mi_malloc(size_t n) { return malloc(n); }
void *mi_calloc(size_t count, size_t n) { return calloc(count, n); }
void *mi_realloc(void *p, size_t n) { return realloc(p, n); }
void mi_free(void *p) { free(p); }
char *mi_strdup(const char *s) { return strdup(s); }
