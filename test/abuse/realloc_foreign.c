/* realloc of memory that is not from glebe: reads nothing and returns NULL.
 *
 * all: glebe: realloc(ADDRESS): address is not from glebe */
#include "abuse.h"

int main(void)
{
    static char variable[64];
    if (realloc(wrong(variable), 200) || errno != EINVAL)
        return 2;
    return abuse_end();
}
