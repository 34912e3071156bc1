/* A program that imports no C library: to a loader, a program with a static C library looks like this. */
#include <windows.h>

int alone_main(void)
{
    return HeapAlloc(GetProcessHeap(), 0, 100) ? 7 : 1;
}
