/* operator delete of memory that is not from glebe: the report names operator delete.
 *
 * all: glebe: operator delete(ADDRESS): address is not from glebe */
#include "abuse.h"

extern void operator_delete(void *) __asm__("_ZdlPv");

int main(void)
{
    static char variable[64];
    operator_delete(wrong(variable));
    return abuse_end();
}
