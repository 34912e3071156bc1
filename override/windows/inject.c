/* Starts a thread at LoadLibraryW in the process; that function has the same address in all processes of a system. The
 * first thread of a process initializes the process. So the libraries that the program imports start before glebe;
 * blocks that they allocated before are their C library's. */
#include <stdbool.h>
#include <windows.h>

#include "inject.h"

/* Runs LoadLibraryW(path) in the process. Returns false if the system refused, and its error is set. Otherwise *loaded
 * is not 0 if the library was loaded. */
static bool inject_load(HANDLE process, void *path, DWORD *loaded)
{
    FARPROC load = GetProcAddress(GetModuleHandleA("kernel32.dll"), "LoadLibraryW");
    HANDLE thread = CreateRemoteThread(process, NULL, 0, (LPTHREAD_START_ROUTINE)(void (*)(void))load, path, 0, NULL);
    if (!thread)
        return false;
    HANDLE ends[] = {thread, process};
    WaitForMultipleObjects(2, ends, FALSE, INFINITE);
    bool known = GetExitCodeThread(thread, loaded);
    CloseHandle(thread);
    return known;
}

enum inject_result gb_inject(void *process, const wchar_t *library, unsigned long *why)
{
    BOOL other = FALSE;
    *why = 0;
    if (IsWow64Process(process, &other) && other)
        return INJECT_32_BIT;
    size_t bytes = (wcslen(library) + 1) * sizeof *library;
    void *path = VirtualAllocEx(process, NULL, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
    DWORD loaded = 0, status = STILL_ACTIVE;
    bool ran = path && WriteProcessMemory(process, path, library, bytes, NULL) && inject_load(process, path, &loaded);
    if (!ran)
        *why = GetLastError();
    GetExitCodeProcess(process, &status);
    if (status != STILL_ACTIVE) {
        *why = status;
        return INJECT_NOT_LOADED;
    }
    if (path)
        VirtualFreeEx(process, path, 0, MEM_RELEASE);
    return !ran ? INJECT_REFUSED : loaded ? INJECT_DONE : INJECT_NOT_LOADED;
}
