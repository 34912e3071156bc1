/* Loads a library into a process that was created suspended and has not run yet. glebe.exe puts glebe.dll under a program
 * so, and glebe.dll itself under children. */
#ifndef OVERRIDE_INJECT_H
#define OVERRIDE_INJECT_H

#include <wchar.h>

enum inject_result {
    INJECT_DONE,
    INJECT_32_BIT, /* a program for another processor than the library's */
    INJECT_REFUSED, /* a call of the system failed: *why is its error */
    /* the library, or the program's own, could not be loaded: *why is the status of the process, or 0 */
    INJECT_NOT_LOADED,
};

/* `library` is a full path; `process` a handle with all rights, whose only thread is suspended and stays so. Returns
 * when the program's own libraries and then this one are initialized. */
enum inject_result gb_inject(void *process, const wchar_t *library, unsigned long *why);

#endif
