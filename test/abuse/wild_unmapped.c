/* An address without memory: the slice table must not be read beyond its end.
 *
 * all: glebe: free(ADDRESS): address is not from glebe
 * lines: 5 */
#include "abuse.h"

int main(void)
{
    static const uintptr_t addresses[] = {1, 0x10, 0xdfdfdfdf0, 0x7fffffffe000, ~(uintptr_t)15};
    for (int i = 0; i < 5; i++)
        free(wrong((void *)addresses[i]));
    return abuse_end();
}
