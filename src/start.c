/* What happens when the library is loaded and when the program ends. Allocation works before the one and after the other:
 * these only read the options, arm the fork handlers, and say at the end what was asked for. */
#include "core.h"

__attribute__((constructor)) static void start_library(void)
{
    gb_options_read();
    gb_port_start();
}

__attribute__((destructor)) static void end_library(void)
{
    gb_say_at_exit();
}
