/* Loads a library into a process that was created suspended and has not run yet. glebe.exe loads glebe.dll into a
 * program this way, and glebe.dll itself into child processes. */
#ifndef OVERRIDE_INJECT_H
#define OVERRIDE_INJECT_H

#include <wchar.h>

enum inject_result {
    INJECT_DONE,
    INJECT_32_BIT, /* the program is for another processor than the library */
    INJECT_REFUSED, /* a system call failed: *why is its error */
    /* the library, or one of the program's, could not be loaded: *why is the status of the process, or 0 */
    INJECT_NOT_LOADED,
};

/* `library` is a full path. `process` is a handle with all rights. The process's only thread is suspended, and stays
 * suspended. Returns when the program's own libraries and then this one are initialized. */
enum inject_result gb_inject(void *process, const wchar_t *library, unsigned long *why);

#endif
