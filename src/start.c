/* The library's start and end. Allocation works before the start and after the end. The start reads the options,
 * arms the fork handlers, starts the profile of GLEBE_PROFILE, and begins to watch the limits for GLEBE_SNAPSHOT. The
 * end prints the output of GLEBE_VERBOSE and GLEBE_STATS, and writes that profile. */
#include "core.h"

/* The process that looks at this one at its exit: `glebe explain` or `glebe leaks`, its parent. 0: none. */
static uint32_t start_watcher;

static void start_library(void)
{
    const char *watcher = gb_port_environment("GLEBE_TOOL_EXIT");
    for (; watcher && *watcher >= '0' && *watcher <= '9'; watcher++)
        start_watcher = start_watcher * 10 + (uint32_t)(*watcher - '0');
    gb_the.shape = GB_LINEAR ? NULL : gb_shape_address();
    gb_options_read();
    gb_port_start();
    if (GB_TAGS)
        gb_tags_begin();
    if (GB_THREADS)
        gb_guard_begin();
    if (GB_THREADS)
        gb_profile_begin();
    if (GB_SNAPSHOTS) {
        gb_evidence_begin();
        gb_snapshot_begin();
    }
}
GB_AT_START(start_library)

/* Most processes print nothing: their exit touches no page of the code that prints. */
void gb_say_at_exit(void)
{
    if (start_watcher)
        gb_port_stop_for(start_watcher);
    if (gb_the.options.verbose)
        gb_verbose_say();
    if (gb_the.options.stats)
        gb_stats_say();
    if (GB_SAMPLES)
        gb_profile_end();
}
GB_AT_END(gb_say_at_exit)
