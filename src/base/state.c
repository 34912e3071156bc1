/* The two variables of which a process has one each, and which every layer uses: `gb_the`, the region, with the picture
 * in types.h, and `glebe_live`, the statistics as they change, under the region's lock. Readers and printers take the
 * names and the order of the statistics from the one list in glebe.h. */
#include "base.h"

gb_region gb_the;

#define STATE_COUNT(name, unit, meaning) +1
struct glebe_live glebe_live = {GLEBE_LIVE_MAGIC, 1, sizeof(struct glebe_live), 0 GLEBE_STATS(STATE_COUNT), {0}};

#define STATE_NAME(name, unit, meaning) #name "\0"
const char glebe_live_names[] = GLEBE_STATS(STATE_NAME);
