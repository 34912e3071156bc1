/* An address in a page that may not be read: looking at an address must not touch it.
 *
 * all: glebe: free(ADDRESS): address is not from glebe */
#include "abuse.h"

int main(void)
{
    char *page = mmap(NULL, 1 << 16, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    free(wrong(page + 64));
    return abuse_end();
}
