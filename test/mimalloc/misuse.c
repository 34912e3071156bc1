/* Makes one mistake, by its name; test_mimalloc.py has the expected reports. */
#include <stdlib.h>
#include <string.h>

#include "mi.h"

int main(int count, char **words)
{
    const char *what = count > 1 ? words[1] : "";
    mi_heap_t *heap = mi_heap_new();
    char *p = mi_malloc(20000), *q = mi_malloc_aligned_at(20000, 64, 8);
    static char local[64];
    if (strcmp(what, "destroy twice") == 0)
        mi_heap_destroy(heap), mi_heap_destroy(heap);
    else if (strcmp(what, "delete twice") == 0)
        mi_heap_delete(heap), mi_heap_delete(heap);
    else if (strcmp(what, "heap that is gone") == 0) {
        mi_heap_destroy(heap);
        if (!mi_heap_malloc(heap, 10))
            puts("NULL");
    } else if (strcmp(what, "free twice") == 0)
        mi_free(p), mi_free(mi_malloc(30000)), mi_free(p);
    else if (strcmp(what, "marked twice") == 0)
        mi_free(q), mi_free(q);
    else if (strcmp(what, "static") == 0)
        mi_free(local);
    else if (strcmp(what, "inside") == 0)
        mi_free(p + 64);
    else if (strcmp(what, "inside marked") == 0)
        mi_free(q + 64);
    else if (strcmp(what, "size") == 0)
        mi_free_size(p, 200000);
    else if (strcmp(what, "alignment") == 0)
        mi_free_aligned(p + 8, 64);
    else if (strcmp(what, "realloc") == 0) {
        if (!mi_realloc(local, 10))
            puts("NULL");
    } else if (strcmp(what, "checked") == 0)
        mi_cfree(local);
    else
        return 2;
    puts("went on");
    return 0;
}
