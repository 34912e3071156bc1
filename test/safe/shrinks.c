/* A block of BYTES bytes, of which the program wrote the first and one in the middle of each eighth, shrinks by realloc
 * by an eighth a step: shrinks BYTES. Prints the most resident KB of any step. */
#include "../contract/contract.h"

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    size_t bytes = (size_t)atol(argv[1]), eighth = bytes / 8;
    char *block = malloc(bytes);
    CHECK(block);
    for (size_t i = 0; i < 8; i++)
        block[i * eighth + eighth / 2] = (char)(i + 1);
    block[0] = 9;
    size_t resident = 0;
    for (size_t left = 7; left > 0; left--) {
        block = realloc(block, left * eighth);
        CHECK(block && block[0] == 9);
        for (size_t i = 0; i < left; i++)
            CHECK(block[i * eighth + eighth / 2] == (char)(i + 1));
        resident = resident > resident_bytes() ? resident : resident_bytes();
    }
    printf("%zu\n", resident / 1024);
    block = realloc(block, bytes); /* what was given back is zero, or new */
    CHECK(block && block[0] == 9 && block[eighth / 2] == 1);
    free(block);
    return 0;
}
