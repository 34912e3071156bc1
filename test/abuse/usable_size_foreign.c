/* malloc_usable_size of memory that is not from glebe: 0.
 *
 * all: glebe: malloc_usable_size(ADDRESS): address is not from glebe */
#include "abuse.h"

int main(void)
{
    static char variable[64];
    if (malloc_usable_size(wrong(variable)) != 0)
        return 2;
    return abuse_end();
}
