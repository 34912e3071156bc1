/* Calls opens_by_name.c for a name that the program itself could not open. */
#include "contract.h"

#include <dlfcn.h>

int opens_by_name(const char *name, int mode, int space);

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    CHECK(!dlopen(argv[1], RTLD_NOW) && !dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND));
    for (int space = 0; space < 2; space++) {
        CHECK(opens_by_name(argv[1], RTLD_NOW, space));
        CHECK(opens_by_name(argv[1], RTLD_NOW | RTLD_DEEPBIND, space));
    }
    return 0;
}
