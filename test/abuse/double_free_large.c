/* A large block freed twice.
 *
 * default: glebe: free(ADDRESS): double free: the block of 114688 bytes here is free already
 * secure: glebe: free(ADDRESS): double free: the block of over 64 KiB here is free already
 * audit: glebe: free(ADDRESS): address is in free memory: freed already, or never given out */
#include "abuse.h"

int main(void)
{
    void *block = wrong(malloc(LARGE));
    free(block);
    free(block);
    return abuse_end();
}
