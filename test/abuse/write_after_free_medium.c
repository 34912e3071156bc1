/* A medium block written to after it was freed: it holds no link, so the heap stays sound, and no build notices.
 *
 * all: served */
#include "abuse.h"

int main(void)
{
    char *a = malloc(MEDIUM), *b = malloc(MEDIUM);
    free(a);
    __asm__("" : "+r"(a));
    memset(a, 'A', MEDIUM);
    free(b);
    if (glebe_check(NULL, 2, abuse_broken, NULL) != 0)
        return 2;
    return abuse_end();
}
