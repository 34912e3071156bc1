/* An address inside a small block.
 *
 * default: undetected
 * secure, audit: glebe: free(ADDRESS): address is 16 bytes inside a block of 64 bytes that starts at START */
#include "abuse.h"

int main(void)
{
    void *block = malloc(SMALL);
    free(inside(block, 16));
    free(block);
    return abuse_end();
}
