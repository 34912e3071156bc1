/* reallocarray of memory that is not from glebe: the report names reallocarray.
 *
 * all: glebe: reallocarray(ADDRESS): address is not from glebe */
#include "abuse.h"

int main(void)
{
    static char variable[64];
    if (reallocarray(wrong(variable), 10, 20) || errno != EINVAL)
        return 2;
    return abuse_end();
}
