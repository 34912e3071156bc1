/* A minimal library to put under a program: it sets a variable before main. */
#include <stdlib.h>
#include <windows.h>

BOOL WINAPI DllMain(HINSTANCE self, DWORD why, LPVOID reserved)
{
    (void)self, (void)reserved;
    if (why == DLL_PROCESS_ATTACH)
        _putenv("GLEBE_TOOL_SIGN=left");
    return TRUE;
}
