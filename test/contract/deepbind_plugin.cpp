/* The plugin that deepbind opens. It also allocates before dlopen returns. */
#include "deepbind.h"

extern "C" __attribute__((used)) const char *whose_name() { return "plugin's"; }

static std::string early(1000, 'e');
static deepbind_plugin functions;

extern "C" const deepbind_plugin *plugin_functions();
extern "C" const deepbind_plugin *plugin_functions()
{
    early.append(5000, 'f');
    functions = {make, drop, malloc, whose_name()};
    return &functions;
}
