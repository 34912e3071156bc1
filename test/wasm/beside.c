/* glebe_malloc and the C library's malloc in one memory: in either order, neither takes the other's memory. Prints
 * "ok". */
#include <glebe.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 200 };
static struct {
    unsigned char *ours, *theirs;
    size_t bytes;
} blocks[COUNT];

static int filled(const unsigned char *block, size_t bytes, int with)
{
    while (bytes > 0 && block[bytes - 1] == (unsigned char)with)
        bytes--;
    return bytes == 0;
}

int main(void)
{
    for (int i = 0; i < COUNT; i++) {
        size_t bytes = blocks[i].bytes = 50 + (size_t)i * i * 3;
#if OURS_FIRST
        blocks[i].ours = glebe_malloc(bytes);
#endif
        blocks[i].theirs = malloc(bytes);
#if !OURS_FIRST
        blocks[i].ours = glebe_malloc(bytes);
#endif
        memset(blocks[i].ours, i, bytes);
        memset(blocks[i].theirs, ~i, bytes);
    }
    for (int i = 0; i < COUNT; i++) {
        if (!filled(blocks[i].ours, blocks[i].bytes, i) || !filled(blocks[i].theirs, blocks[i].bytes, ~i)
            || glebe_check(NULL, 2, NULL, NULL) != 0) {
            printf("%d\n", i);
            return 1;
        }
        glebe_free(blocks[i].ours);
        free(blocks[i].theirs);
    }
    puts("ok");
    return 0;
}
