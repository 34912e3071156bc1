/* A plugin that uses glebe: linked with libglebe.so it shares the library, linked with libglebe.a it has a copy. */
#include "contract.h"

#include <glebe.h>

int plugin_run(unsigned seed);
int plugin_run(unsigned seed)
{
    void *blocks[100];
    uint32_t state = seed;
    for (int i = 0; i < 100; i++) {
        blocks[i] = glebe_malloc(any_size(&state));
        if (!blocks[i])
            return 1;
    }
    for (int i = 0; i < 100; i++)
        glebe_free(blocks[i]);
    return 0;
}
