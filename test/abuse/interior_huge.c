/* Addresses inside a huge block: in its first piece, and in a later one.
 *
 * default, audit: glebe: free(ADDRESS): address is inside a block of over 256 KiB, or between two
 * secure: glebe: free(ADDRESS): address is inside a block of over 64 KiB, or between two
 * lines: 2 */
#include "abuse.h"

int main(void)
{
    char *block = malloc(9 << 20);
    free(wrong(block + 4096));
    free(wrong(block + (8 << 20)));
    free(block);
    return abuse_end();
}
