/* Shared by the fuzz targets: the unit tests' fixture, and a condition whose failure crashes and names the
 * condition. */
#define FIXTURE_FAIL() abort()
#include "../unit/fixture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define REQUIRE(condition) \
    do \
        if (!(condition)) { \
            fprintf(stderr, "%s\n", #condition); \
            abort(); \
        } \
    while (0)
