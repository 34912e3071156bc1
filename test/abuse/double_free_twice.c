/* The same medium block freed three times: each wrong call is reported.
 *
 * default, audit: glebe: free(ADDRESS): double free: the block of 6144 bytes here is free already
 * secure: glebe: free(ADDRESS): double free: the block of 6000 bytes here is free already
 * lines: 2 */
#include "abuse.h"

int main(void)
{
    void *block = wrong(malloc(MEDIUM)), *other = malloc(MEDIUM);
    free(block);
    free(block);
    free(block);
    free(other);
    return abuse_end();
}
