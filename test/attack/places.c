/* Prints the address of a block of each kind: small, medium, large, huge. */
#include "attack.h"

int main(void)
{
    static const size_t sizes[] = {64, 4000, 200000, 4000000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        printf("%p\n", (void *)take(sizes[i]));
    return 0;
}
