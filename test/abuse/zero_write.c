/* A block of no bytes from realloc and calloc written to.
 *
 * all: faults */
#include "abuse.h"

int main(void)
{
    volatile char *first = realloc(NULL, 0), *second = calloc(10, 0);
    first[0] = second[0] = 'A';
    return abuse_end();
}
