/* Frees an address inside a large block. */
#include <stdlib.h>

int main(void)
{
    char *volatile block = malloc(100000);
    free(block + 4096);
    return 0;
}
