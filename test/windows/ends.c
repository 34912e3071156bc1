/* The process ends while threads allocate: the system stops them at any point, even while they hold glebe's locks, and
 * then an exit handler allocates. The threads call only glebe, since the C library and Wine have their own locks. */
#include <stdio.h>
#include <stdlib.h>
#include <windows.h>

#include "glebe.h"

static DWORD WINAPI allocate(void *unused)
{
    for (size_t i = 0;; i = (i + 7919) % 300000)
        glebe_free(glebe_malloc(i));
    return (DWORD)(size_t)unused;
}

static void at_exit(void)
{
    for (size_t bytes = 1; bytes < 3000000; bytes *= 3)
        if (!glebe_malloc(bytes))
            TerminateProcess(GetCurrentProcess(), 1);
}

int main(void)
{
    atexit(at_exit);
    for (int i = 0; i < 4; i++)
        if (!CreateThread(NULL, 0, allocate, NULL, 0, NULL))
            return 1;
    Sleep(50);
    puts("well");
    return 0;
}
