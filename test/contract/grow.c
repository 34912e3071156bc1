/* Blocks grow by realloc from 2 to 100 MiB, beyond each slot that they are in, a dozen times. Their content stays, and
 * calloc's blocks are zero afterwards. */
#include "contract.h"

enum { MIB = 1 << 20 };

int main(void)
{
    for (int round = 0; round < 12; round++) {
        size_t bytes = (size_t)2 * MIB;
        unsigned char *p = malloc(bytes);
        CHECK(p);
        memset(p, round + 1, bytes);
        while (bytes < (size_t)100 * MIB) {
            size_t more = bytes + (size_t)(round % 3 + 1) * MIB * 3 / 2;
            p = realloc(p, more);
            CHECK(p);
            for (size_t i = 0; i < bytes; i += 4096)
                CHECK(p[i] == round + 1 && p[bytes - 1] == round + 1);
            memset(p + bytes, round + 1, more - bytes);
            bytes = more;
        }
        unsigned char *zero = calloc(5, MIB);
        CHECK(zero);
        for (size_t i = 0; i < (size_t)5 * MIB; i++)
            CHECK(zero[i] == 0);
        free(zero);
        free(p);
    }
    return 0;
}
