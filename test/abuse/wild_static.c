/* The address of a static variable.
 *
 * all: glebe: free(ADDRESS): address is not from glebe */
#include "abuse.h"

int main(void)
{
    static char variable[64];
    free(wrong(variable));
    return abuse_end();
}
