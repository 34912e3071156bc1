/* An address inside a medium block.
 *
 * default, audit: glebe: free(ADDRESS): address is 4096 bytes inside a block of 6144 bytes that starts at START
 * secure: glebe: free(ADDRESS): address is 4096 bytes inside a block of 6000 bytes that starts at START */
#include "abuse.h"

int main(void)
{
    void *block = malloc(MEDIUM);
    free(inside(block, 4096));
    free(block);
    return abuse_end();
}
