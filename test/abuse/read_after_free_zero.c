/* A small block read after it was freed, far behind its link: the secure build has cleared it, so its contents do not
 * leak. Prints "leaked" if they do.
 *
 * default, audit: undetected
 * secure: served */
#include "abuse.h"

int main(void)
{
    enum { BYTES = 512 };
    char *secret = malloc(BYTES);
    memset(secret, 's', BYTES);
    free(secret);
    __asm__("" : "+r"(secret));
    for (int i = 16; i < BYTES; i++)
        if (secret[i] == 's') {
            abuse_say("leaked\n");
            return 1;
        }
    return 0;
}
