/* An address inside a small block, freed by another thread: remote frees are checked in every build.
 *
 * all: glebe: free(ADDRESS): address is 16 bytes inside a block of 64 bytes that starts at START */
#include "abuse.h"

int main(void)
{
    void *block = malloc(SMALL);
    on_thread(free_it, inside(block, 16));
    free(block);
    return abuse_end();
}
