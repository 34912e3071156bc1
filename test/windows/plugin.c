/* A library with another C library (UCRT) than the program's, without start-up code: it hands out blocks and takes them
 * back. It allocates a block while it is loaded and frees it later. */
#include <stdlib.h>
#include <string.h>

#include <windows.h>

static void *early;

__declspec(dllexport) char *plugin_copy(const char *text)
{
    return _strdup(text);
}

__declspec(dllexport) void plugin_free(void *block)
{
    free(block);
}

__declspec(dllexport) void *plugin_early(void)
{
    return early;
}

BOOL WINAPI plugin_main(HINSTANCE self, DWORD why, LPVOID reserved)
{
    (void)self;
    (void)reserved;
    if (why == DLL_PROCESS_ATTACH)
        early = malloc(100);
    return TRUE;
}
