/* Calls with a block that was freed and is held, one kind for each argument: the library reports each. The block's
 * address is printed first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <malloc.h>

extern void *volatile kept;
void *volatile kept;

int main(int count, char **words)
{
    size_t bytes = count > 2 ? strtoul(words[2], NULL, 0) : 64;
    kept = malloc(bytes);
    printf("ADDRESS %p\n", kept);
    fflush(stdout);
    free(kept);
    if (count < 2)
        return 2;
    if (!strcmp(words[1], "free"))
        free(kept);
    else if (!strcmp(words[1], "realloc"))
        kept = realloc(kept, 2 * bytes);
    else if (!strcmp(words[1], "malloc_usable_size"))
        printf("%zu\n", malloc_usable_size(kept));
    else if (!strcmp(words[1], "write")) {
        memset(kept, 0x55, bytes); /* into memory that no block has: harmless */
        for (int i = 0; i < 100000; i++) {
            unsigned char *other = malloc(bytes < 4096 ? bytes : 4096);
            if (other == kept)
                return 3;
            other[0] = 1;
            free(other);
        }
    }
    return 0;
}
