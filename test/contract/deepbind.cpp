/* Opens a plugin with RTLD_DEEPBIND; each side frees blocks of the other.
 *     deepbind FILE open|base|new [look]      by dlopen; dlmopen in the program's namespace; in a new one
 * Prints whether both have the same malloc, and which side's definition of a common name the plugin sees. `look`: does
 * no more. */
#include "deepbind.h"

#include <dlfcn.h>

extern "C" __attribute__((used)) const char *whose_name() { return "program's"; }

int main(int argc, char **argv)
{
    CHECK(argc >= 3);
    bool another = strcmp(argv[2], "new") == 0;
    free(malloc(1));
    void *handle = another                      ? dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW)
                 : strcmp(argv[2], "base") == 0 ? dlmopen(LM_ID_BASE, argv[1], RTLD_NOW | RTLD_DEEPBIND)
                                                : dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND);
    if (!handle)
        fprintf(stderr, "%s\n", dlerror());
    CHECK(handle);
    const deepbind_plugin *(*find)();
    *(void **)&find = dlsym(handle, "plugin_functions");
    CHECK(find);
    const deepbind_plugin *plugin = find();
    printf("%s malloc, %s name\n", plugin->its_malloc == malloc ? "one" : "another", plugin->whose);
    fflush(stdout);
    if (argc > 3)
        return 0;
    for (int round = 0; round < 100; round++)
        for (int kind = 0; kind < KINDS; kind++)
            if (another) { /* the program must not free its blocks */
                if (kind != IN_THREAD)
                    plugin->drop(kind, plugin->make(kind));
                drop(kind, make(kind));
            } else {
                drop(kind, plugin->make(kind));
                plugin->drop(kind, make(kind));
            }
    CHECK(dlclose(handle) == 0);
    return 0;
}
