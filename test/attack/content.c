/* Content against the check of double frees: `content SIZE BLOCKS`. The blocks are in use, and look like free blocks at
 * the end of a list: byte 7 is the mark, and the link is 0. They are freed, then another block twice, with no write in
 * between. Exit status 1: malloc handed that block out twice. */
#include "attack.h"

int main(int argc, char **argv)
{
    enum { MARK_AT = 7, MARK = 0xa5, LATER = 512 };
    if (argc != 3)
        return 2;
    size_t size = strtoul(argv[1], NULL, 0), count = strtoul(argv[2], NULL, 0);
    char **blocks = calloc(count, sizeof *blocks), *victim = take(size);
    for (size_t i = 0; i < count; i++) {
        blocks[i] = take(size);
        memset(blocks[i], 0, size);
        blocks[i][MARK_AT] = (char)MARK;
    }
    memset(victim, 'A', size);
    for (size_t i = 0; i < count; i++)
        drop(blocks[i]);
    drop(victim);
    HIDE(victim);
    drop(victim);
    int times = 0;
    for (size_t i = 0; i < count + LATER && times < 2; i++)
        times += take(size) == victim;
    return times == 2;
}
