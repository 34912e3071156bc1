/* The host contract (../port.h) on Windows, 8.1 and later, x86-64 and ARM64. It imports only kernel32.dll by name,
 * because it may be the malloc of a program whose C library is not up yet. Differences from POSIX systems:
 *
 *     commit        counts against memory and page file, used or not. Task Manager shows the core's commits, of 2 MiB
 *                   each, as the commit size
 *     address space reserved, it costs nothing in Windows. Wine keeps a byte for each page of it: there nothing is
 *                   reserved, and each commit takes its own place
 *     purging       MEM_RESET leaves the old contents until the system wants the pages: a lazy purge. Other purges
 *                   decommit pages and commit them again; they then read as zero
 *     moving        there is no such call; the core copies
 *     fork          there is none
 *     exit          the system ends all other threads wherever they are, and then runs destructors. A lock that one
 *                   of them held stays held; gb_port_alone is true then
 *     thread locals must be the compiler's own, as clang has them. gcc emulates them, by calls that allocate
 *
 * Every function keeps errno, which the system's calls do not change, and the thread's last error. */
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef _WIN32_WINNT
#define _WIN32_WINNT 0x0603
#endif
#include <stdlib.h>
#include <windows.h>

#include "port.h"

#if defined(__GNUC__) && !defined(__clang__)
#error "glebe on Windows is compiled by clang (or zig cc): gcc's thread locals allocate; gcc's programs may link it"
#endif

/* ---- functions found by name ---- */

typedef _Atomic(FARPROC) windows_found;

/* Returns a function that only some versions of Windows, or only Wine, have; NULL if it is not there. Each call looks
 * it up until it is found. All threads find the same function. */
static FARPROC windows_find(windows_found *found, const char *library, const char *name)
{
    FARPROC function = gb_load(found);
    if (function)
        return function;
    DWORD last = GetLastError();
    HMODULE module = GetModuleHandleA(library); /* callers name only libraries that every process has */
    function = module ? GetProcAddress(module, name) : NULL;
    SetLastError(last);
    gb_store(found, function);
    return function;
}

/* Enables SeLockMemoryPrivilege, which large pages need: an account that has the privilege starts with it disabled. */
static void windows_may_lock(void)
{
    enum { LOCK_MEMORY = 4 }; /* SE_LOCK_MEMORY_PRIVILEGE */
    typedef BOOL WINAPI open_token(HANDLE, DWORD, PHANDLE);
    typedef BOOL WINAPI adjust(HANDLE, BOOL, PTOKEN_PRIVILEGES, DWORD, PTOKEN_PRIVILEGES, PDWORD);
    static windows_found found_open, found_adjust;
    FARPROC open = windows_find(&found_open, "kernelbase.dll", "OpenProcessToken");
    FARPROC set = windows_find(&found_adjust, "kernelbase.dll", "AdjustTokenPrivileges");
    TOKEN_PRIVILEGES wanted = {1, {{{LOCK_MEMORY, 0}, SE_PRIVILEGE_ENABLED}}};
    HANDLE token;
    DWORD last = GetLastError();
    if (open && set && ((open_token *)(void (*)(void))open)(GetCurrentProcess(), TOKEN_ADJUST_PRIVILEGES, &token)) {
        ((adjust *)(void (*)(void))set)(token, FALSE, &wanted, 0, NULL, NULL);
        CloseHandle(token);
    }
    SetLastError(last);
}

/* ---- memory ---- */

enum { WINDOWS_ALIGNMENT = 1 << 22, WINDOWS_LARGE_PAGE = 1 << 21 };

size_t gb_port_page_bytes(void)
{
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return info.dwPageSize;
}

/* GLEBE_LARGE_PAGES=1: chunks are committed in large pages if the account may lock memory, else as usual. Windows
 * commits large pages as it reserves them. So the core reserves nothing then, and the system refuses to purge a part of
 * a large page. */
static bool windows_large_pages(void)
{
    enum { UNKNOWN, NO, YES };
    static _Atomic uint32_t state;
    if (gb_load(&state) == UNKNOWN) {
        const char *value = gb_port_environment("GLEBE_LARGE_PAGES");
        bool wanted = value && strcmp(value, "1") == 0;
        if (wanted)
            windows_may_lock();
        gb_store(&state, wanted ? YES : NO);
    }
    return gb_load(&state) == YES;
}

size_t gb_port_address_bytes(void)
{
    static windows_found version;
    return windows_large_pages() || windows_find(&version, "ntdll.dll", "wine_get_version") ? (size_t)1 << 38
                                                                                            : SIZE_MAX;
}

static void *windows_take(uintptr_t at, size_t bytes, DWORD how, DWORD protection)
{
    DWORD last = GetLastError();
    void *p = VirtualAlloc((void *)at, bytes, how, protection);
    SetLastError(last);
    return p;
}

static bool windows_release(uintptr_t at, size_t bytes, DWORD how)
{
    DWORD last = GetLastError();
    bool ok = VirtualFree((void *)at, bytes, how);
    SetLastError(last);
    return ok;
}

/* A reservation can be released only as a whole. A longer one shows where an aligned one fits, if no other thread takes
 * that place first. */
uintptr_t gb_port_reserve(size_t bytes)
{
    enum { ATTEMPTS = 8 };
    for (int i = 0; i < ATTEMPTS; i++) {
        uintptr_t at = (uintptr_t)windows_take(0, bytes + WINDOWS_ALIGNMENT, MEM_RESERVE, PAGE_NOACCESS);
        if (at == 0)
            return 0;
        windows_release(at, 0, MEM_RELEASE);
        uintptr_t aligned = (at + WINDOWS_ALIGNMENT - 1) & ~(uintptr_t)(WINDOWS_ALIGNMENT - 1);
        if (windows_take(aligned, bytes, MEM_RESERVE, PAGE_NOACCESS))
            return aligned;
    }
    return 0;
}

/* Places in the middle of a process's address space, far from programs, their libraries and stacks. */
uintptr_t gb_port_propose(size_t bytes, unsigned attempt, size_t *room)
{
    (void)bytes;
    *room = (size_t)1 << 44;
    return attempt < 4 ? (uintptr_t)0x100000000000u + ((uintptr_t)attempt << 44) : 0;
}

enum gb_commit gb_port_commit(uintptr_t at, size_t bytes, bool reserved)
{
    DWORD last = GetLastError(), how = reserved ? MEM_COMMIT : MEM_RESERVE | MEM_COMMIT;
    void *p = NULL;
    if (windows_large_pages() && ((at | bytes) & (WINDOWS_LARGE_PAGE - 1)) == 0)
        p = VirtualAlloc((void *)at, bytes, how | MEM_LARGE_PAGES, PAGE_READWRITE);
    if (!p)
        p = VirtualAlloc((void *)at, bytes, how, PAGE_READWRITE);
    DWORD why = GetLastError();
    SetLastError(last);
    return p ? GB_COMMITTED : !reserved && why == ERROR_INVALID_ADDRESS ? GB_TAKEN : GB_NO_MEMORY;
}

/* If nothing was reserved each commit made its own allocation; the range may cover several. */
bool gb_port_decommit(uintptr_t at, size_t bytes, bool reserved)
{
    if (reserved)
        return windows_release(at, bytes, MEM_DECOMMIT);
    for (uintptr_t end = at + bytes; at < end;) {
        MEMORY_BASIC_INFORMATION piece;
        if (!VirtualQuery((void *)at, &piece, sizeof piece) || (uintptr_t)piece.AllocationBase != at)
            return windows_release(at, end - at, MEM_DECOMMIT); /* a part of an allocation: its place stays taken */
        size_t length = 0;
        do
            length += piece.RegionSize;
        while (VirtualQuery((void *)(at + length), &piece, sizeof piece) && (uintptr_t)piece.AllocationBase == at);
        if (length > end - at)
            return windows_release(at, end - at, MEM_DECOMMIT);
        if (!windows_release(at, 0, MEM_RELEASE))
            return false;
        at += length;
    }
    return true;
}

enum gb_purge gb_port_purge(uintptr_t at, size_t bytes, bool lazily)
{
    if (lazily)
        return windows_take(at, bytes, MEM_RESET, PAGE_READWRITE) ? GB_PURGE_LAZY : GB_PURGE_REFUSED;
    if (!windows_release(at, bytes, MEM_DECOMMIT))
        return GB_PURGE_REFUSED;
    enum { ATTEMPTS = 1000 };
    for (int i = 0; i < ATTEMPTS; i++) { /* another process may take this memory in between */
        if (windows_take(at, bytes, MEM_COMMIT, PAGE_READWRITE))
            return GB_PURGE_ZERO;
        Sleep(1);
    }
    static const char why[] = "glebe: purged memory could not be committed again: the system is out of memory\n";
    gb_port_print(why, sizeof why - 1);
    gb_port_abort();
}

enum gb_move gb_port_move(uintptr_t from, uintptr_t to, size_t bytes)
{
    (void)from;
    (void)to;
    (void)bytes;
    return GB_STAYED;
}

void gb_port_huge_pages(uintptr_t at, size_t bytes, bool wanted)
{
    (void)at;
    (void)bytes;
    (void)wanted;
}

bool gb_port_huge_page_quick(uintptr_t at)
{
    (void)at;
    return true;
}

size_t gb_port_resident(uintptr_t at, size_t bytes)
{
    (void)at;
    return bytes;
}

void gb_port_protect(uintptr_t at, size_t bytes)
{
    DWORD last = GetLastError(), before;
    VirtualProtect((void *)at, bytes, PAGE_NOACCESS, &before);
    SetLastError(last);
}

bool gb_port_pressure(uint64_t *limit_bytes, uint64_t *used_bytes)
{
    (void)limit_bytes;
    (void)used_bytes;
    return false;
}

/* The system heap that has the block, or NULL. All C libraries of Windows allocate from such heaps. */
static HANDLE windows_heap_of(const void *block)
{
    enum { HEAPS = 128 };
    HANDLE heaps[HEAPS];
    DWORD count = GetProcessHeaps(HEAPS, heaps);
    for (DWORD i = 0; i < count && i < HEAPS; i++)
        if (HeapValidate(heaps[i], 0, block))
            return heaps[i];
    return NULL;
}

/* Returns 1 for a block of 0 bytes, because 0 means none. */
size_t gb_port_foreign_bytes(const void *block)
{
    DWORD last = GetLastError();
    HANDLE heap = windows_heap_of(block);
    size_t bytes = heap ? HeapSize(heap, 0, block) : 0;
    SetLastError(last);
    return heap && bytes == 0 ? 1 : bytes;
}

bool gb_port_foreign_free(void *block)
{
    DWORD last = GetLastError();
    HANDLE heap = windows_heap_of(block);
    bool freed = heap && HeapFree(heap, 0, block);
    SetLastError(last);
    return freed;
}

/* ---- time, random numbers, text ---- */

uint32_t gb_port_now_ms(void)
{
    return (uint32_t)GetTickCount64();
}

/* The system's generators are in libraries that would have to be loaded, which allocates. So this mixes addresses,
 * which the system randomizes, counters, and the processor's own generator if it has one. */
uint64_t gb_port_random(void)
{
    static _Atomic uint64_t calls;
    LARGE_INTEGER count;
    QueryPerformanceCounter(&count);
    uint64_t x = (uint64_t)count.QuadPart ^ (uintptr_t)&count << 20 ^ (uintptr_t)&calls << 7
        ^ (uint64_t)GetCurrentProcessId() << 40 ^ GetCurrentThreadId();
#ifdef __x86_64__
    x ^= __builtin_ia32_rdtsc() << 13;
    uint32_t leaf = 1, features;
    __asm__ volatile("cpuid" : "+a"(leaf), "=c"(features) : : "rbx", "rdx");
    if (features >> 30 & 1) {
        uint64_t chance = 0;
        __asm__ volatile("rdrand %0" : "+r"(chance) : : "cc");
        x ^= chance;
    }
#endif
    x += gb_add(&calls, 0x9e3779b97f4a7c15u);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

enum { WINDOWS_VARIABLES = 32 };

/* Reads the environment without the C library, which may not be up. The block is never freed. */
char *const *gb_port_environment_all(void)
{
    static char *ours[WINDOWS_VARIABLES + 1];
    static char *block;
    if (!block && (block = GetEnvironmentStringsA()) != NULL) {
        size_t count = 0;
        for (char *at = block; *at && count < WINDOWS_VARIABLES; at += strlen(at) + 1)
            if (strncmp(at, "GLEBE_", 6) == 0)
                ours[count++] = at;
    }
    return ours;
}

const char *gb_port_environment(const char *name)
{
    size_t length = strlen(name);
    for (char *const *entry = gb_port_environment_all(); *entry; entry++)
        if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=')
            return *entry + length + 1;
    return NULL;
}

static void windows_write(HANDLE file, const char *text, size_t bytes)
{
    DWORD last = GetLastError(), written;
    while (bytes > 0 && WriteFile(file, text, (DWORD)bytes, &written, NULL) && written > 0) {
        text += written;
        bytes -= written;
    }
    SetLastError(last);
}

void gb_port_print(const char *text, size_t bytes)
{
    windows_write(GetStdHandle(STD_ERROR_HANDLE), text, bytes);
}

static HANDLE windows_stderr; /* a copy of the original handle; child programs do not inherit it */

void gb_port_keep_stderr(void)
{
    DWORD last = GetLastError();
    if (!windows_stderr)
        DuplicateHandle(GetCurrentProcess(), GetStdHandle(STD_ERROR_HANDLE), GetCurrentProcess(), &windows_stderr, 0,
            FALSE, DUPLICATE_SAME_ACCESS);
    SetLastError(last);
}

void gb_port_say(const char *text, size_t bytes)
{
    if (windows_stderr)
        windows_write(windows_stderr, text, bytes);
}

bool gb_port_append(const char *path, const char *text, size_t bytes)
{
    (void)path, (void)text, (void)bytes;
    return false; /* the command uses it on Linux only */
}

const char *gb_port_program(void)
{
    static char path[MAX_PATH];
    DWORD last = GetLastError(), length = GetModuleFileNameA(NULL, path, sizeof path);
    SetLastError(last);
    while (length > 0 && path[length - 1] != '\\' && path[length - 1] != '/')
        length--;
    return path + length;
}

uint32_t gb_port_process(void)
{
    return GetCurrentProcessId();
}

bool gb_port_malloc_elsewhere(void) { return false; } /* one process has several mallocs there */

void gb_port_stop_for(uint32_t parent) { (void)parent; }

/* Ends the process with abort's exit status, without its dialogs. */
_Noreturn void gb_port_abort(void)
{
    if (IsDebuggerPresent())
        DebugBreak();
    TerminateProcess(GetCurrentProcess(), 3);
    for (;;)
        Sleep(INFINITE);
}

/* ---- threads ---- */

typedef BOOL WINAPI windows_wait_function(volatile VOID *, PVOID, SIZE_T, DWORD);
typedef VOID WINAPI windows_wake_function(PVOID);

/* If the system has no WaitOnAddress (before Windows 8), waiters check again each millisecond. */
void gb_port_wait(_Atomic uint32_t *word, uint32_t expected, uint32_t ms)
{
    static windows_found wait;
    FARPROC function = windows_find(&wait, "kernelbase.dll", "WaitOnAddress");
    DWORD last = GetLastError();
    if (function)
        ((windows_wait_function *)(void (*)(void))function)(
            (volatile void *)word, &expected, sizeof expected, ms == UINT32_MAX ? INFINITE : ms);
    else if (gb_load(word) == expected)
        Sleep(1);
    SetLastError(last);
}

void gb_port_wake(_Atomic uint32_t *word)
{
    static windows_found wake;
    FARPROC function = windows_find(&wake, "kernelbase.dll", "WakeByAddressAll");
    if (function)
        ((windows_wake_function *)(void (*)(void))function)((void *)(uintptr_t)word);
}

bool gb_port_alone(void)
{
    static windows_found ending;
    FARPROC function = windows_find(&ending, "ntdll.dll", "RtlDllShutdownInProgress");
    return function && ((BOOLEAN(WINAPI *)(void))(void (*)(void))function)();
}

static void WINAPI windows_thread_end(void *armed)
{
    if (armed)
        gb_thread_exit();
}

/* Fiber-local storage has a destructor, and its slots take no memory of glebe. A thread that uses fibers ends with its
 * last fiber. */
void gb_port_thread_arm(void)
{
    static _Atomic uint32_t slot; /* the slot's index + 1; 0: none yet */
    DWORD last = GetLastError();
    uint32_t index = gb_load(&slot);
    if (index == 0) {
        DWORD fresh = FlsAlloc(windows_thread_end);
        uint32_t none = 0;
        if (fresh != FLS_OUT_OF_INDEXES && !atomic_compare_exchange_strong(&slot, &none, fresh + 1))
            FlsFree(fresh);
        index = gb_load(&slot);
    }
    if (index != 0)
        FlsSetValue(index - 1, (void *)1);
    SetLastError(last);
}

static DWORD WINAPI windows_thread_run(void *run)
{
    ((void (*)(void))(uintptr_t)run)();
    return 0;
}

bool gb_port_thread_start(void (*run)(void))
{
    DWORD last = GetLastError();
    HANDLE thread = CreateThread(
        NULL, (size_t)64 << 10, windows_thread_run, (void *)(uintptr_t)run, STACK_SIZE_PARAM_IS_A_RESERVATION, NULL);
    if (thread)
        CloseHandle(thread);
    SetLastError(last);
    return thread != NULL;
}

/* Looks up the functions for waiting now: a later look-up would take the loader's lock while glebe holds its own. */
void gb_port_start(void)
{
    static _Atomic uint32_t nobody;
    gb_port_wait(&nobody, 1, 0);
    gb_port_wake(&nobody);
    gb_port_alone();
    atexit(gb_say_at_exit);
}
