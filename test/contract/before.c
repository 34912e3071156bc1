/* Reads the word before a block of some MB, as LuaMetaTeX does. Exit status 0: the read worked. */
#include <stdlib.h>

int main(void)
{
    for (size_t bytes = 2 << 20; bytes <= (size_t)64 << 20; bytes *= 2) {
        volatile long *block = malloc(bytes);
        if (!block || block[-1] != 0)
            return 1;
    }
    return 0;
}
