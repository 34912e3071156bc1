/* A program that calls no C library outside: one with a static C library looks like this to a loader. */
#include <windows.h>

int alone_main(void)
{
    return HeapAlloc(GetProcessHeap(), 0, 100) ? 7 : 1;
}
