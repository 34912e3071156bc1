/* What happens when the library is loaded and when the program ends. Allocation works before the one and after the
 * other: these only read the options, arm the fork handlers, and say at the end what was asked for. */
#include "core.h"

static void start_library(void)
{
    gb_options_read();
    gb_port_start();
}
GB_AT_START(start_library)
GB_AT_END(gb_say_at_exit)
