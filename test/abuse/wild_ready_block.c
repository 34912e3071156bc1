/* The start of a small block that is free in its page, and that malloc never returned.
 *
 * default, audit: glebe: free(ADDRESS): double free: the block of 1792 bytes here is free already
 * secure: glebe: free(ADDRESS): double free: the block of 1784 bytes here is free already */
#include "abuse.h"

int main(void)
{
    uintptr_t block = (uintptr_t)malloc(1784), page = block & ~(uintptr_t)16383;
    uintptr_t index = (block - page) / 1792; /* glebe makes two blocks ready at a time */
    free(wrong((void *)(page + (index ^ 1) * 1792)));
    return abuse_end();
}
