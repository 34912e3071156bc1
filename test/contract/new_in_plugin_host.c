/* Opens the plugin argv[1] in a scope of its own, and calls its tests of operator new. */
#include "contract.h"

#include <dlfcn.h>

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    CHECK(plugin);
    int (*run)(void) = (int (*)(void))(uintptr_t)dlsym(plugin, "plugin_new");
    CHECK(run);
    printf("%d\n", run());
    return 0;
}
