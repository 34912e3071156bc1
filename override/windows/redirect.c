/* glebe.dll: redirects the C library calls of a program to the functions of crt.c. It is loaded before the program
 * begins (inject.c), and changes the import tables of all loaded modules. It changes the tables of modules that are
 * loaded later before their first instruction runs.
 *
 *     module ---- IAT slot of malloc ----> ucrtbase.dll!malloc        before
 *                            `-----------> glebe.dll!malloc           after
 *
 * A slot is recognized by the address in it: whatever name it was imported by (api-ms-win-crt-heap-l1-1-0, an ordinal),
 * it points to a function of a C library in the list below. GetProcAddress is redirected too, because programs, and the
 * stubs of delay-loaded imports, may ask it for malloc. CreateProcess is redirected if child processes are to load
 * glebe (GLEBE_TOOL_CHILDREN=1).
 *
 * Calls without a slot cannot be redirected: calls within a C library (free recognizes such blocks and passes them to
 * their own heap), and calls in programs with a C library linked in. With GLEBE_VERBOSE=1 glebe prints for each module
 * which functions were redirected, or that none could be. */
#define _CRTIMP
#include "../../src/core.h"

#include <malloc.h>
#include <stdlib.h>
#include <wchar.h>

#include <windows.h>
#include <psapi.h>

#include "inject.h"

/* ---- the functions replaced, and their replacements ---- */

typedef void redirect_code(void);

static void *redirect_new(size_t bytes);
static FARPROC WINAPI redirect_find(HMODULE module, const char *name);
static BOOL WINAPI redirect_create_a(const char *, char *, LPSECURITY_ATTRIBUTES, LPSECURITY_ATTRIBUTES, BOOL, DWORD,
    void *, const char *, LPSTARTUPINFOA, LPPROCESS_INFORMATION);
static BOOL WINAPI redirect_create_w(const wchar_t *, wchar_t *, LPSECURITY_ATTRIBUTES, LPSECURITY_ATTRIBUTES, BOOL,
    DWORD, void *, const wchar_t *, LPSTARTUPINFOW, LPPROCESS_INFORMATION);

unsigned char *_mbsdup(const unsigned char *);
size_t _aligned_msize(void *, size_t, size_t);

typedef struct redirect_row {
    const char *name;
    redirect_code *ours;
} redirect_row;

#define ROW(name, ours) {name, (redirect_code *)ours}
/* _base: names that other parts of UCRT itself call. ??2 and ??_U are operators new, ??3 and ??_V operators delete, of
 * C libraries that contain C++. */
static const redirect_row of_crt[] = {
    ROW("malloc", malloc),
    ROW("calloc", calloc),
    ROW("realloc", realloc),
    ROW("free", free),
    ROW("_msize", _msize),
    ROW("_expand", _expand),
    ROW("_recalloc", _recalloc),
    ROW("_malloc_base", malloc),
    ROW("_calloc_base", calloc),
    ROW("_realloc_base", realloc),
    ROW("_free_base", free),
    ROW("_msize_base", _msize),
    ROW("_expand_base", _expand),
    ROW("_recalloc_base", _recalloc),
    ROW("_strdup", _strdup),
    ROW("strdup", _strdup),
    ROW("_mbsdup", _mbsdup),
    ROW("_wcsdup", _wcsdup),
    ROW("wcsdup", _wcsdup),
    ROW("_aligned_malloc", _aligned_malloc),
    ROW("_aligned_free", _aligned_free),
    ROW("_aligned_realloc", _aligned_realloc),
    ROW("_aligned_recalloc", _aligned_recalloc),
    ROW("_aligned_msize", _aligned_msize),
    ROW("_aligned_offset_malloc", _aligned_offset_malloc),
    ROW("_aligned_offset_realloc", _aligned_offset_realloc),
    ROW("_aligned_offset_recalloc", _aligned_offset_recalloc),
    ROW("??2@YAPEAX_K@Z", redirect_new),
    ROW("??_U@YAPEAX_K@Z", redirect_new),
    ROW("??3@YAXPEAX@Z", free),
    ROW("??_V@YAXPEAX@Z", free),
};
static const redirect_row of_system[] = {
    ROW("GetProcAddress", redirect_find),
    ROW("CreateProcessA", redirect_create_a),
    ROW("CreateProcessW", redirect_create_w),
};
enum {
    OF_CRT = sizeof of_crt / sizeof of_crt[0],
    OF_SYSTEM = sizeof of_system / sizeof of_system[0],
    ROWS = OF_CRT > OF_SYSTEM ? OF_CRT : OF_SYSTEM
};

/* A library whose functions are replaced: a C library, or one of the two system libraries with the other functions.
 * Rows change under the loader's lock, and redirect_find reads them without it: a row's content is written before its
 * base. */
typedef struct redirect_source {
    _Atomic(const char *) base; /* NULL: a free row */
    size_t bytes;
    const redirect_row *rows;
    unsigned count;
    redirect_code *theirs[ROWS];
} redirect_source;

enum { SOURCES = 24 };
static redirect_source sources[SOURCES];

static struct {
    HMODULE self;
    bool children;
    unsigned modules, functions;
} redirect;

/* ---- images ---- */

static const IMAGE_NT_HEADERS *image_headers(const char *base)
{
    return (const IMAGE_NT_HEADERS *)(base + ((const IMAGE_DOS_HEADER *)base)->e_lfanew);
}

static bool is_within(const char *base, const void *address)
{
    return (uintptr_t)address - (uintptr_t)base < image_headers(base)->OptionalHeader.SizeOfImage;
}

static const IMAGE_DATA_DIRECTORY *image_directory(const char *base, unsigned which)
{
    return &image_headers(base)->OptionalHeader.DataDirectory[which];
}

/* Returns the function that the module exports under this name; NULL if there is none, or it is forwarded. The loader's
 * own search cannot be used, because the loader is busy when glebe looks at modules. */
static redirect_code *image_export(const char *base, const char *name)
{
    const IMAGE_DATA_DIRECTORY *where = image_directory(base, IMAGE_DIRECTORY_ENTRY_EXPORT);
    if (where->Size == 0)
        return NULL;
    const IMAGE_EXPORT_DIRECTORY *exports = (const IMAGE_EXPORT_DIRECTORY *)(base + where->VirtualAddress);
    const DWORD *names = (const DWORD *)(base + exports->AddressOfNames);
    for (DWORD low = 0, high = exports->NumberOfNames; low < high;) {
        DWORD middle = low + (high - low) / 2;
        int order = strcmp(name, base + names[middle]);
        if (order == 0) {
            DWORD at = ((const DWORD *)(base
                + exports->AddressOfFunctions))[((const WORD *)(base + exports->AddressOfNameOrdinals))[middle]];
            return at - where->VirtualAddress < where->Size ? NULL : (redirect_code *)(base + at);
        }
        *(order < 0 ? &high : &low) = order < 0 ? middle : middle + 1;
    }
    return NULL;
}

/* ---- sources ---- */

static redirect_source *source_of(const void *address)
{
    for (redirect_source *source = sources; source < sources + SOURCES; source++) {
        const char *base = gb_load(&source->base);
        if (base && (uintptr_t)address - (uintptr_t)base < source->bytes)
            return source;
    }
    return NULL;
}

static void source_add(const char *base, const redirect_row *rows, unsigned count)
{
    redirect_source *source = sources;
    while (source < sources + SOURCES && source->base && source->base != base)
        source++;
    if (source == sources + SOURCES || source->base)
        return;
    source->bytes = image_headers(base)->OptionalHeader.SizeOfImage;
    source->rows = rows;
    source->count = count;
    for (unsigned i = 0; i < count; i++)
        source->theirs[i] = image_export(base, rows[i].name);
    gb_store(&source->base, base);
}

/* Debug C libraries (_malloc_dbg), whose blocks have headers, are not redirected: their programs free blocks by other
 * names too. */
static bool is_crt(const char *base)
{
    return image_export(base, "malloc") && image_export(base, "_msize") && image_export(base, "_errno")
        && !image_export(base, "_malloc_dbg");
}

/* Returns the row that replaces this function of the source; NULL if there is none. `source` may be NULL. */
static const redirect_row *row_of(const redirect_source *source, redirect_code *theirs)
{
    for (unsigned i = 0; source && i < source->count; i++)
        if (source->theirs[i] == theirs)
            return &source->rows[i];
    return NULL;
}

/* Returns the function of this name in the first C library that has one; NULL if none has. */
static redirect_code *original(const char *name)
{
    for (redirect_source *source = sources; source < sources + SOURCES; source++) {
        redirect_code *found = source->base && source->rows == of_crt ? image_export(source->base, name) : NULL;
        if (found)
            return found;
    }
    return NULL;
}

/* ---- messages ---- */

enum { NAME_BYTES = 64, LINE_BYTES = 1024 };

static void module_name(char *out, const char *base)
{
    wchar_t path[MAX_PATH];
    DWORD length = GetModuleFileNameW((HMODULE)(uintptr_t)base, path, MAX_PATH);
    const wchar_t *name = path + length;
    while (name > path && name[-1] != L'\\' && name[-1] != L'/')
        name--;
    int written = WideCharToMultiByte(CP_UTF8, 0, name, (int)(path + length - name), out, NAME_BYTES - 1, NULL, NULL);
    out[written > 0 ? written : 0] = 0;
}

static void say(const char *text, const char *name, const char *more)
{
    char line[LINE_BYTES + 256], program[NAME_BYTES];
    gb_plain(program, sizeof program, gb_port_program(), "");
    size_t n = gb_format(line, sizeof line, "glebe: %s[%u]: %s%s%s\n", program, gb_port_process(), text, name, more);
    gb_port_say(line, n < sizeof line ? n : sizeof line - 1);
}

static bool is_systems(const char *base)
{
    wchar_t path[MAX_PATH], windows[MAX_PATH];
    UINT length = GetSystemWindowsDirectoryW(windows, MAX_PATH);
    return GetModuleFileNameW((HMODULE)(uintptr_t)base, path, MAX_PATH) > length
        && _wcsnicmp(path, windows, length) == 0;
}

/* ---- modules that are loaded ---- */

static bool slot_set(redirect_code **slot, redirect_code *code)
{
    DWORD before;
    if (!VirtualProtect(slot, sizeof *slot, PAGE_READWRITE, &before))
        return false;
    __atomic_store_n(slot, code, __ATOMIC_RELEASE);
    VirtualProtect(slot, sizeof *slot, before, &before);
    return true;
}

static void module_redirect(const char *base)
{
    if (base == (const char *)redirect.self || (source_of(base) && source_of(base)->rows == of_system))
        return;
    char names[LINE_BYTES] = "";
    unsigned functions = 0, failed = 0;
    bool has_crt = false;
    size_t at = 0;
    const IMAGE_DATA_DIRECTORY *where = image_directory(base, IMAGE_DIRECTORY_ENTRY_IMPORT);
    const IMAGE_IMPORT_DESCRIPTOR *library = (const IMAGE_IMPORT_DESCRIPTOR *)(base + where->VirtualAddress);
    for (; where->Size > 0 && library->FirstThunk; library++)
        for (redirect_code **slot = (redirect_code **)(uintptr_t)(base + library->FirstThunk); *slot; slot++) {
            const redirect_source *source = source_of((const void *)(uintptr_t)*slot);
            const redirect_row *row = row_of(source, *slot);
            has_crt |= (source && source->rows == of_crt)
                || is_within((const char *)redirect.self, (const void *)(uintptr_t)*slot);
            if (!row)
                continue;
            if (!slot_set(slot, row->ours))
                failed++;
            else if (source->rows == of_crt) {
                functions++;
                at += gb_format(names + at, sizeof names - at, " %s", row->name);
                at = at < sizeof names ? at : sizeof names - 1;
            }
        }
    redirect.functions += functions;
    redirect.modules += functions > 0;
    if (!gb_the.options.verbose)
        return;
    char name[NAME_BYTES];
    module_name(name, base);
    if (functions > 0)
        say("redirected in ", name, names);
    else if (!has_crt && !is_systems(base))
        say("not redirected: ", name, " imports no C library, and may have one linked in");
    if (failed > 0)
        say("an import table cannot be written: ", name, "");
}

static void modules_redirect(void)
{
    enum { MODULES = 1024 };
    static HMODULE modules[MODULES];
    DWORD bytes = 0;
    if (!K32EnumProcessModules(GetCurrentProcess(), modules, sizeof modules, &bytes))
        return;
    size_t count = bytes / sizeof *modules < MODULES ? bytes / sizeof *modules : MODULES;
    for (size_t i = 0; i < count; i++)
        if (is_crt((const char *)modules[i]))
            source_add((const char *)modules[i], of_crt, OF_CRT);
    for (size_t i = 0; i < count; i++)
        module_redirect((const char *)modules[i]);
}

/* ---- modules that are loaded later ---- */

/* As ntdll.dll's LdrRegisterDllNotification defines them (Windows Vista and later). */
typedef struct loader_news {
    ULONG flags;
    const void *path, *name;
    void *base;
    ULONG bytes;
} loader_news;
typedef VOID CALLBACK loader_listener(ULONG why, const loader_news *news, void *context);
typedef LONG NTAPI loader_register(ULONG flags, loader_listener *listener, void *context, void **cookie);
enum { LOADED = 1, UNLOADED = 2 };

/* Called under the loader's lock, when the module's imports are resolved and none of its code has run. */
static VOID CALLBACK loader_speaks(ULONG why, const loader_news *news, void *context)
{
    (void)context;
    DWORD last = GetLastError();
    if (why == LOADED && is_crt(news->base))
        modules_redirect(); /* modules that import it may have been loaded before it */
    else if (why == LOADED)
        module_redirect(news->base);
    else if (why == UNLOADED && source_of(news->base))
        gb_store(&source_of(news->base)->base, NULL);
    SetLastError(last);
}

/* ---- replacements for the system's functions ---- */

/* errno is the program's C library's. */
int *_errno(void)
{
    static int none;
    redirect_code *theirs = original("_errno");
    return theirs ? ((int *(*)(void))theirs)() : &none;
}
extern int *(*const __imp__errno)(void);
int *(*const __imp__errno)(void) = _errno;

/* When memory runs out, the C library calls the program's handler and throws. */
static void *redirect_new(size_t bytes)
{
    void *block = malloc(bytes);
    redirect_code *theirs = block ? NULL : original("??2@YAPEAX_K@Z");
    return theirs ? ((void *(*)(size_t))theirs)(bytes) : block;
}

static FARPROC WINAPI redirect_find(HMODULE module, const char *name)
{
    FARPROC found = GetProcAddress(module, name);
    const redirect_row *row = found ? row_of(source_of((const void *)(uintptr_t)found), (redirect_code *)found) : NULL;
    return row ? (FARPROC)row->ours : found;
}

static BOOL child_redirect(BOOL created, DWORD flags, LPPROCESS_INFORMATION child)
{
    if (!created)
        return FALSE;
    wchar_t path[MAX_PATH];
    DWORD length = GetModuleFileNameW(redirect.self, path, MAX_PATH);
    unsigned long why;
    if (length == 0 || length >= MAX_PATH || gb_inject(child->hProcess, path, &why) != INJECT_DONE)
        say("a child runs without glebe: ", "", "it could not be loaded there");
    if (!(flags & CREATE_SUSPENDED))
        ResumeThread(child->hThread);
    return TRUE;
}

static BOOL WINAPI redirect_create_a(const char *program, char *line, LPSECURITY_ATTRIBUTES of_process,
    LPSECURITY_ATTRIBUTES of_thread, BOOL inherit, DWORD flags, void *environment, const char *folder,
    LPSTARTUPINFOA start, LPPROCESS_INFORMATION child)
{
    DWORD suspended = redirect.children ? CREATE_SUSPENDED : 0;
    BOOL created = CreateProcessA(
        program, line, of_process, of_thread, inherit, flags | suspended, environment, folder, start, child);
    return suspended ? child_redirect(created, flags, child) : created;
}

static BOOL WINAPI redirect_create_w(const wchar_t *program, wchar_t *line, LPSECURITY_ATTRIBUTES of_process,
    LPSECURITY_ATTRIBUTES of_thread, BOOL inherit, DWORD flags, void *environment, const wchar_t *folder,
    LPSTARTUPINFOW start, LPPROCESS_INFORMATION child)
{
    DWORD suspended = redirect.children ? CREATE_SUSPENDED : 0;
    BOOL created = CreateProcessW(
        program, line, of_process, of_thread, inherit, flags | suspended, environment, folder, start, child);
    return suspended ? child_redirect(created, flags, child) : created;
}

/* ---- begin and end ---- */

static void redirect_start(HMODULE self)
{
    HMODULE pinned;
    GetModuleHandleExW(
        GET_MODULE_HANDLE_EX_FLAG_PIN | GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, (LPCWSTR)(void *)self, &pinned);
    redirect.self = self;
    const char *children = gb_port_environment("GLEBE_TOOL_CHILDREN");
    redirect.children = children && strcmp(children, "1") == 0;
    source_add((const char *)GetModuleHandleA("kernel32.dll"), of_system, OF_SYSTEM);
    source_add((const char *)GetModuleHandleA("kernelbase.dll"), of_system, OF_SYSTEM);
    modules_redirect();
    void *cookie;
    loader_register *listen = (loader_register *)(void (*)(void))GetProcAddress(
        GetModuleHandleA("ntdll.dll"), "LdrRegisterDllNotification");
    if (!listen || listen(0, loader_speaks, NULL, &cookie) != 0)
        say("libraries that are loaded later are not redirected: ", "", "the loader does not report them");
}

static void redirect_end(void)
{
    if (!gb_the.options.verbose)
        return;
    char line[LINE_BYTES];
    gb_format(line, sizeof line,
        "redirected %u functions in %u module%s; freed %zu blocks of other heaps", redirect.functions, redirect.modules,
        redirect.modules == 1 ? "" : "s", (size_t)glebe_live.stats.foreign_frees);
    say(line, "", "");
}

BOOL WINAPI DllMain(HINSTANCE self, DWORD why, LPVOID reserved)
{
    (void)reserved;
    if (why == DLL_PROCESS_ATTACH)
        redirect_start(self);
    else if (why == DLL_PROCESS_DETACH)
        redirect_end();
    return TRUE;
}
