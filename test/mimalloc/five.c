/* Imports the same five functions of libmimalloc.so.3 as LuaMetaTeX, and nothing else. */
#include <stdio.h>
#include <string.h>

void *mi_malloc(size_t), *mi_calloc(size_t, size_t), *mi_realloc(void *, size_t);
void mi_free(void *);
char *mi_strdup(const char *);

int main(void)
{
    enum { MANY = 20000 };
    static char *strings[MANY];
    size_t total = 0;
    for (int i = 0; i < MANY; i++) {
        char text[32];
        snprintf(text, sizeof text, "token %d", i);
        strings[i] = mi_strdup(text);
    }
    int *table = mi_calloc(1, sizeof *table);
    for (int n = 1; n <= 1 << 20; n *= 2) {
        table = mi_realloc(table, (size_t)n * sizeof *table);
        table[n - 1] = n;
    }
    for (int i = 0; i < MANY; i += 2)
        mi_free(strings[i]);
    for (int i = 0; i < MANY; i += 2)
        strings[i] = memset(mi_malloc(20), 'x', 20);
    for (int i = 1; i < MANY; i += 2)
        total += strlen(strings[i]);
    for (int i = 0; i < MANY; i++)
        mi_free(strings[i]);
    for (int n = 1; n <= 1 << 20; n *= 2)
        total += (size_t)(table[n - 1] == n);
    mi_free(table);
    printf("%zu\n", total);
    return 0;
}
