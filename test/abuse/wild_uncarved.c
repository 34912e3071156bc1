/* An address in a page of small blocks, in a part where no block was handed out yet.
 *
 * default: undetected
 * secure: glebe: free(ADDRESS): address is in a page of blocks of 1408 bytes, where no block was given out
 * audit: glebe: free(ADDRESS): address is in a page of blocks of 1280 bytes, where no block was given out */
#include "abuse.h"

int main(void)
{
    uintptr_t block = (uintptr_t)malloc(1280);
    free(wrong((void *)((block & ~(uintptr_t)16383) + 11 * 1280)));
    return abuse_end();
}
