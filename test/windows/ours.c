/* Prints whether calloc's blocks are glebe's or, without the override, the C library's. */
#include <stdio.h>
#include <stdlib.h>

#include "glebe.h"

int main(void)
{
    void *block = calloc(1, 100);
    puts(glebe_heap_owns(NULL, block) ? "well" : "not ours");
    free(block);
    return 0;
}
