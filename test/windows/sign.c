/* The least that can be put under a program: it leaves a sign, before main. */
#include <stdlib.h>
#include <windows.h>

BOOL WINAPI DllMain(HINSTANCE self, DWORD why, LPVOID reserved)
{
    (void)self, (void)reserved;
    if (why == DLL_PROCESS_ATTACH)
        _putenv("GLEBE_TOOL_SIGN=left");
    return TRUE;
}
