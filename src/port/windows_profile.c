/* What heap profiles need of Windows: stacks, loaded code, files. It follows windows.c in ../glebe.c.
 *
 * The system walks stacks by the tables that its exceptions use, which all code for 64 bits has but leaf functions.
 * A module's identity is what Microsoft's symbol servers use for programs: the time stamp in its head and its size.
 *
 *     module 140000000 140016000 0 6566a1b200016000 C:\tools\program.exe       start, end, 0, identity, path in UTF-8
 *
 * There are no guarded blocks here. */

#if GB_SAMPLES

#include <errno.h>

uint64_t gb_port_now_ns(void)
{
    LARGE_INTEGER count, each_second;
    QueryPerformanceCounter(&count);
    QueryPerformanceFrequency(&each_second);
    uint64_t now = (uint64_t)count.QuadPart, unit = (uint64_t)each_second.QuadPart, second = 1000000000;
    return now / unit * second + now % unit * second / unit;
}

void gb_port_sampled(const void *block, size_t bytes, uint64_t weight) { (void)block, (void)bytes, (void)weight; }
void gb_port_sample_freed(const void *block) { (void)block; }

uintptr_t gb_port_guards(size_t bytes)
{
    (void)bytes;
    return 0;
}

bool gb_port_guard(uintptr_t at, size_t bytes, bool accessible)
{
    (void)at, (void)bytes, (void)accessible;
    return false;
}

bool gb_port_faults(gb_port_fault *ours)
{
    (void)ours;
    return false;
}

/* ---- stacks ---- */

static _Atomic(FARPROC) windows_walk;

void gb_port_stack_start(void)
{
    static windows_found found;
    gb_store(&windows_walk, windows_find(&found, "ntdll.dll", "RtlCaptureStackBackTrace"));
}

void gb_port_stack_often(void) {}

void gb_port_stack_forked(void) {}

GB_NOINLINE uint32_t gb_port_stack(uintptr_t *callers, uint32_t most)
{
    typedef USHORT WINAPI walk(ULONG, ULONG, PVOID *, PULONG);
    FARPROC function = gb_load(&windows_walk);
    DWORD last = GetLastError();
    uint32_t count = function ? ((walk *)(void (*)(void))function)(1, most, (void **)callers, NULL) : 0;
    SetLastError(last);
    while (count > 0 && callers[count - 1] == 0)
        count--;
    return count;
}

/* ---- loaded code ---- */

/* Describes the module whose first bytes are at `base`. Returns false if it is no program for 64 bits. */
static bool windows_module(gb_module *module, HMODULE base, uint8_t identity[8], char *path, int room)
{
    wchar_t wide[MAX_PATH];
    const IMAGE_DOS_HEADER *dos = (const void *)base;
    const IMAGE_NT_HEADERS64 *head = (const void *)((uintptr_t)base + (uintptr_t)dos->e_lfanew);
    if (dos->e_magic != IMAGE_DOS_SIGNATURE || head->Signature != IMAGE_NT_SIGNATURE
        || head->OptionalHeader.Magic != IMAGE_NT_OPTIONAL_HDR64_MAGIC)
        return false;
    for (int i = 0; i < 4; i++) {
        identity[i] = (uint8_t)(head->FileHeader.TimeDateStamp >> (24 - 8 * i));
        identity[4 + i] = (uint8_t)(head->OptionalHeader.SizeOfImage >> (24 - 8 * i));
    }
    DWORD length = GetModuleFileNameW(base, wide, MAX_PATH);
    if (length == 0 || length == MAX_PATH || !WideCharToMultiByte(CP_UTF8, 0, wide, -1, path, room, NULL, NULL))
        path[0] = 0;
    *module = (gb_module){(uintptr_t)base, (uintptr_t)base + head->OptionalHeader.SizeOfImage, 0, path, identity, 8};
    return true;
}

void gb_port_modules(void (*each)(void *context, const gb_module *module), void *context)
{
    enum { MODULES = 512 };
    typedef BOOL WINAPI list(HANDLE, HMODULE *, DWORD, LPDWORD);
    static windows_found found;
    HMODULE modules[MODULES];
    char path[3 * MAX_PATH];
    FARPROC function = windows_find(&found, "kernel32.dll", "K32EnumProcessModules");
    DWORD last = GetLastError(), bytes = 0;
    if (!function || !((list *)(void (*)(void))function)(GetCurrentProcess(), modules, sizeof modules, &bytes))
        bytes = 0;
    for (DWORD i = 0; i < MODULES && i < bytes / sizeof modules[0]; i++) {
        gb_module module;
        uint8_t identity[8];
        if (windows_module(&module, modules[i], identity, path, sizeof path))
            each(context, &module);
    }
    SetLastError(last);
}

/* ---- files ---- */

static int windows_error(void)
{
    switch (GetLastError()) {
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND: return ENOENT;
    case ERROR_FILE_EXISTS:
    case ERROR_ALREADY_EXISTS: return EEXIST;
    case ERROR_ACCESS_DENIED:
    case ERROR_SHARING_VIOLATION: return EACCES;
    case ERROR_HANDLE_DISK_FULL:
    case ERROR_DISK_FULL: return ENOSPC;
    default: return EIO;
    }
}

/* A descriptor is a handle: all their bits that count are in the lower half. */
static HANDLE windows_file(int file) { return (HANDLE)(intptr_t)file; }

int gb_port_create(const char *path, bool anew, int *error)
{
    DWORD last = GetLastError();
    HANDLE file = CreateFileA(
        path, GENERIC_WRITE, FILE_SHARE_READ, NULL, anew ? CREATE_NEW : CREATE_ALWAYS, FILE_ATTRIBUTE_NORMAL, NULL);
    *error = file == INVALID_HANDLE_VALUE ? windows_error() : 0;
    SetLastError(last);
    return *error ? -1 : (int)(intptr_t)file;
}

int gb_port_put(int file, const char *text, size_t bytes)
{
    DWORD last = GetLastError(), written;
    int error = 0;
    while (bytes > 0 && error == 0) {
        if (!WriteFile(windows_file(file), text, bytes < 1 << 20 ? (DWORD)bytes : 1 << 20, &written, NULL))
            error = windows_error();
        else if (written == 0)
            error = ENOSPC;
        else
            text += written, bytes -= written;
    }
    SetLastError(last);
    return error;
}

int gb_port_finish(int file, const char *from, const char *to)
{
    DWORD last = GetLastError();
    int error = CloseHandle(windows_file(file)) ? 0 : windows_error();
    if (to && !error && strcmp(from, to) != 0 && !MoveFileExA(from, to, MOVEFILE_REPLACE_EXISTING))
        error = windows_error();
    if (!to || error)
        DeleteFileA(from);
    SetLastError(last);
    return error;
}

#endif
