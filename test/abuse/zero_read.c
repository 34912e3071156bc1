/* A block of no bytes read: its address has no memory.
 *
 * all: faults */
#include "abuse.h"

int main(void)
{
    volatile char *block = malloc(0);
    return *block + abuse_end();
}
