/* The address of a local variable.
 *
 * all: glebe: free(ADDRESS): address is not from glebe */
#include "abuse.h"

int main(void)
{
    long local[4] = {0, 0x41, 0, 0}; /* looks like the header of another allocator's block */
    free(wrong(&local[2]));
    return abuse_end();
}
