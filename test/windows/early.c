/* A library that this program imports allocated before glebe.dll was loaded. The program passes that block to free,
 * which is glebe's. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

__declspec(dllimport) void *plugin_early(void);

int main(void)
{
    void *block = plugin_early();
    if (!block || _msize(block) != 100)
        return 1;
    free(block);
    puts("well");
    return 0;
}
