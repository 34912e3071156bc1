/* Prints whether glebe's functions work, and whether plain malloc is glebe's. */
#include <glebe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
    glebe_heap *heap = glebe_heap_create(0);
    char *in_heap = glebe_heap_malloc(heap, 100), *block = glebe_malloc(3000000);
    if (!in_heap || !block || glebe_version() != GLEBE_VERSION)
        return 1;
    strcpy(in_heap, "works");
    memset(block, 1, 3000000);
    glebe_stats before, after;
    glebe_stats_read(&before);
    void *plain = malloc(5000000);
    glebe_stats_read(&after);
    printf("%s, malloc is %s\n", in_heap, after.used_bytes > before.used_bytes ? "glebe" : "the C library's");
    free(plain);
    glebe_free(block);
    glebe_heap_destroy(heap);
    return glebe_check(NULL, 2, NULL, NULL) != 0;
}
