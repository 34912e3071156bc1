/* glebe.h alone, first and last, in each language: it includes everything that it needs. */
#include <glebe.h>

int header_is_enough(void);
int header_is_enough(void)
{
    glebe_stats stats;
    glebe_stats_read(&stats);
    void *block = glebe_malloc(10);
    glebe_free(block);
    return glebe_version() != GLEBE_VERSION || glebe_live.magic != GLEBE_LIVE_MAGIC;
}
