/* An address between two blocks of no bytes.
 *
 * all: glebe: free(ADDRESS): address is between two blocks of 0 bytes, or none was given out here */
#include "abuse.h"

int main(void)
{
    char *block = malloc(0);
    free(wrong(block + 1));
    free(block);
    return abuse_end();
}
