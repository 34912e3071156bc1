/* The library's start and end. Allocation works before the start and after the end. The start reads the options and
 * arms the fork handlers; the end prints the output of GLEBE_VERBOSE and GLEBE_STATS. */
#include "core.h"

static void start_library(void)
{
    gb_options_read();
    gb_port_start();
}
GB_AT_START(start_library)
GB_AT_END(gb_say_at_exit)
