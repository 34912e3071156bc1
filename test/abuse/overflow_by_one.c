/* A block written one byte past its end, into a neighbour in use: the neighbour's bytes change, but nothing of
 * glebe's: no size, no link, no list stands between blocks.
 *
 * all: served */
#include "abuse.h"

int main(void)
{
    char *a = malloc(24), *b = malloc(24), *c = malloc(24);
    __asm__("" : "+r"(a));
    size_t before = malloc_usable_size(b);
    memset(a, 0, malloc_usable_size(a) + 1);
    if (malloc_usable_size(b) != before)
        return 2;
    free(b);
    free(a);
    free(c);
    if (glebe_check(NULL, 2, abuse_broken, NULL) != 0)
        return 2;
    return abuse_end();
}
