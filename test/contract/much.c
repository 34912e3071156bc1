/* Asks for 2 to the power of the first argument bytes, and touches the first of them. Exits with 7 if that returns NULL
 * and ENOMEM. */
#include <errno.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    errno = 0;
    volatile char *block = malloc((size_t)1 << atoi(argv[1]));
    if (!block)
        return errno == ENOMEM ? 7 : 3;
    block[0] = 1;
    free((void *)block);
    return 0;
}
