/* A block of no bytes from calloc written to.
 *
 * all: faults */
#include "abuse.h"

int main(void)
{
    volatile char *block = calloc(10, 0);
    block[0] = 'A';
    return abuse_end();
}
