/* The address of glebe's own statistics.
 *
 * all: glebe: free(ADDRESS): address is not from glebe */
#include "abuse.h"

int main(void)
{
    free(wrong(&glebe_live));
    return abuse_end();
}
