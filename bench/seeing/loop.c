/* Allocates and frees, and does nothing else: a block of so many bytes so many times. */
#include <stdlib.h>

int main(int count, char **words)
{
    if (count != 3)
        return 2;
    size_t bytes = strtoul(words[1], NULL, 10);
    for (long i = strtol(words[2], NULL, 10); i > 0; i--) {
        void *volatile block = malloc(bytes);
        free(block);
    }
    return 0;
}
