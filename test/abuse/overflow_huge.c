/* A huge block written far past its end: the address space there has no memory and no other block.
 *
 * all: faults */
#include "abuse.h"

int main(void)
{
    char *block = malloc(HUGE_), *other = malloc(HUGE_);
    __asm__("" : "+r"(block));
    memset(block, 'A', (size_t)HUGE_ + ((size_t)8 << 20));
    free(other);
    return abuse_end();
}
