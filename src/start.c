/* The library's start and end. Allocation works before the start and after the end. The start reads the options and
 * arms the fork handlers; the end prints the output of GLEBE_VERBOSE and GLEBE_STATS. */
#include "core.h"

static void start_library(void)
{
    gb_options_read();
    gb_port_start();
}
GB_AT_START(start_library)

/* Most processes print nothing: their exit touches no page of the code that prints. */
void gb_say_at_exit(void)
{
    if (gb_the.options.verbose)
        gb_verbose_say();
    if (gb_the.options.stats)
        gb_stats_say();
}
GB_AT_END(gb_say_at_exit)
