/* A huge block written far past its end meets no other block, but address space without memory.
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
