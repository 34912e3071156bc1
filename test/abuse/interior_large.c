/* An address inside a large block, on the start of a slice.
 *
 * default, audit: glebe: free(ADDRESS): address is 16384 bytes inside a block of 114688 bytes that starts at START
 * secure: glebe: free(ADDRESS): address is inside a block of over 64 KiB, or between two */
#include "abuse.h"

int main(void)
{
    void *block = malloc(LARGE);
    free(inside(block, 16384));
    free(block);
    return abuse_end();
}
