/* A block of no bytes from realloc written to.
 *
 * all: faults */
#include "abuse.h"

int main(void)
{
    volatile char *block = realloc(NULL, 0);
    block[0] = 'A';
    return abuse_end();
}
