/* Addresses that no heap of the process handed out: each is reported once; with GLEBE_ON_ERROR=count, all of them. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "glebe.h"

static char not_a_block[100];

int main(void)
{
    char *block = malloc(100000);
    void *volatile wrong[] = {not_a_block, block + 64, (void *)(size_t)0x1234560};
    for (int i = 0; i < 3; i++)
        free(wrong[i]);
    if (_recalloc(block + 64, 1, 200000) || _expand(block + 64, 200000) || _msize(block + 64) != 0
        || _msize(block) >= 200000)
        return puts("they were taken"), 1;
    _aligned_free(not_a_block + 32); /* the word before it is not a block's address */
    free(block);
    glebe_stats s;
    glebe_stats_read(&s);
    if (s.errors != 7 || glebe_check(NULL, 2, NULL, NULL) != 0)
        return printf("%d errors\n", (int)s.errors), 1;
    puts("well");
    return 0;
}
