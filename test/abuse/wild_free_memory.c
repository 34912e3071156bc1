/* An address in a part of the heap's memory that was never handed out.
 *
 * all: glebe: free(ADDRESS): address is in free memory: freed already, or never given out */
#include "abuse.h"

int main(void)
{
    uintptr_t block = (uintptr_t)malloc(SMALL), chunk = (uintptr_t)2 << 20;
    free(wrong((void *)((block | (chunk - 1)) + 1 - 16384)));
    return abuse_end();
}
