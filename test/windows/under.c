/* A program not linked with glebe; it asks the library under it whose blocks it gets. Its argument selects a check:
 *
 *     family          each allocation function, by its import and by GetProcAddress
 *     late FOLDER     plugin.dll, which is loaded and unloaded a hundred times, and whose blocks cross to this C
 *                     library and back
 *     child PROGRAM   a child's status: the program, with "owns" as its argument
 *     owns            whether malloc's blocks are glebe's: exit status 0 if they are
 *     threads         hundreds allocate, free each other's blocks and end, while libraries are loaded
 *     misuse          an address inside a block is freed */
#include <malloc.h>
#include <mbstring.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include <windows.h>

#include "../check.h"

typedef void code(void);

static int ours(const void *block)
{
    static int (*owns)(void *, const void *);
    if (!owns) {
        HMODULE glebe = GetModuleHandleA("glebe.dll");
        owns = glebe ? (int (*)(void *, const void *))(code *)GetProcAddress(glebe, "glebe_heap_owns") : NULL;
    }
    return owns && block && owns(NULL, block);
}

static void family(void)
{
    char *p = malloc(100);
    CHECK(ours(p));
    p = realloc(p, 100000);
    CHECK(ours(p) && _msize(p) >= 100000);
    CHECK(_expand(p, 10) == p);
    free(p);
    CHECK(ours(p = calloc(3, 7)) && p[20] == 0);
    free(p);
    CHECK(ours(p = _strdup("text")) && strcmp(p, "text") == 0);
    free(p);
    wchar_t *w = _wcsdup(L"text");
    CHECK(ours(w) && wcscmp(w, L"text") == 0);
    free(w);
    p = _aligned_malloc(1000, 4096);
    CHECK(ours(p) && (uintptr_t)p % 4096 == 0);
    p = _aligned_realloc(p, 9000, 8192);
    CHECK(ours(p) && (uintptr_t)p % 8192 == 0);
    _aligned_free(p);

    HMODULE crt = GetModuleHandleA("msvcrt.dll");
    void *(*found)(size_t) = (void *(*)(size_t))(code *)GetProcAddress(crt, "malloc");
    void (*gone)(void *) = (void (*)(void *))(code *)GetProcAddress(crt, "free");
    CHECK(found && gone && ours(p = found(10)));
    gone(p);

    char *theirs = _fullpath(NULL, ".", 0); /* the C library's own block */
    CHECK(theirs && !ours(theirs) && _msize(theirs) > strlen(theirs));
    theirs = realloc(theirs, 5000);
    CHECK(ours(theirs) && theirs[0]);
    free(theirs);
    free(_fullpath(NULL, ".", 0));
}

static HMODULE plugin(const char *folder)
{
    char path[MAX_PATH];
    snprintf(path, sizeof path, "%s\\plugin.dll", folder);
    return LoadLibraryA(path);
}

static void late(const char *folder)
{
    for (int i = 0; i < 100; i++) {
        HMODULE library = plugin(folder);
        CHECK(library);
        char *(*copy)(const char *) = (char *(*)(const char *))(code *)GetProcAddress(library, "plugin_copy");
        void (*release)(void *) = (void (*)(void *))(code *)GetProcAddress(library, "plugin_free");
        void *(*before)(void) = (void *(*)(void))(code *)GetProcAddress(library, "plugin_early");
        char *block = copy("across");
        CHECK(ours(block) && ours(before()));
        free(block);
        release(malloc(300));
        release(before());
        CHECK(FreeLibrary(library));
    }
}

static const char *folder_of_threads;
static char *volatile exchanged[64];

static DWORD WINAPI work(void *number)
{
    unsigned seed = (unsigned)(uintptr_t)number;
    for (int i = 0; i < 3000; i++) {
        seed = seed * 1103515245 + 12345;
        char *block = malloc((seed >> 8 & 4095) + 1);
        *block = 1;
        free(InterlockedExchangePointer((void *volatile *)&exchanged[seed >> 20 & 63], block));
    }
    if (seed & 16)
        FreeLibrary(plugin(folder_of_threads));
    return 0;
}

static void threads(void)
{
    for (int round = 0; round < 40; round++) {
        HANDLE thread[8];
        for (int i = 0; i < 8; i++)
            CHECK(thread[i] = CreateThread(NULL, 0, work, (void *)(uintptr_t)(round * 8 + i), 0, NULL));
        CHECK(WaitForMultipleObjects(8, thread, TRUE, 60000) != WAIT_TIMEOUT);
        for (int i = 0; i < 8; i++)
            CloseHandle(thread[i]);
    }
}

static int child(const char *program)
{
    char line[MAX_PATH + 10];
    snprintf(line, sizeof line, "\"%s\" owns", program);
    STARTUPINFOA start = {.cb = sizeof start};
    PROCESS_INFORMATION process;
    DWORD status = 99;
    CHECK(CreateProcessA(NULL, line, NULL, NULL, TRUE, 0, NULL, NULL, &start, &process));
    WaitForSingleObject(process.hProcess, INFINITE);
    CHECK(GetExitCodeProcess(process.hProcess, &status));
    return (int)status;
}

int main(int count, char **words)
{
    const char *what = count > 1 ? words[1] : "family", *with = count > 2 ? words[2] : ".";
    if (strcmp(what, "owns") == 0)
        return !ours(malloc(10));
    if (strcmp(what, "child") == 0)
        return child(with);
    if (strcmp(what, "late") == 0)
        late(with);
    else if (strcmp(what, "threads") == 0)
        folder_of_threads = with, threads();
    else if (strcmp(what, "misuse") == 0) {
        char *volatile block = malloc(100000);
        free(block + 64);
    } else
        family();
    puts("well");
    return 0;
}
