/* An address in the heap's reserved address space that has no memory yet.
 *
 * all: glebe: free(ADDRESS): address is not from glebe */
#include "abuse.h"

int main(void)
{
    char *block = malloc(SMALL);
    free(wrong(block + ((size_t)1 << 30)));
    free(block);
    return abuse_end();
}
