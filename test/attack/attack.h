/* Shared by the attacks of this folder. One program holds them all: `attack NAME SIZE` makes one of them.
 *
 * An attack that goes through prints OPEN. It was stopped if the process ended before, or if its last check found that
 * nothing was gained: then it prints nothing. The address that a report should name is printed as ADDRESS.
 *
 * The program knows nothing of the allocator beneath it, so that each runs the same attacks: glebe, the C library's,
 * any other. */
#ifndef ATTACK_H
#define ATTACK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <alloca.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct attack {
    const char *name;
    void (*run)(size_t size);
} attack;

/* ends with a row without a name */
extern const attack attack_misuses[], attack_houses[], attack_layouts[];

/* operator new and delete, called by their names in object code: C has no others for them. The attacks of C do without
 * the C++ library, which allocates at its start and so changes where the first blocks are. */
extern void *cxx_new(size_t) __asm__("_Znwm") __attribute__((weak));
extern void *cxx_new_array(size_t) __asm__("_Znam") __attribute__((weak));
extern void *cxx_new_aligned(size_t, size_t) __asm__("_ZnwmSt11align_val_t") __attribute__((weak));
extern void cxx_delete(void *) __asm__("_ZdlPv") __attribute__((weak));
extern void cxx_delete_array(void *) __asm__("_ZdaPv") __attribute__((weak));
extern void cxx_delete_sized(void *, size_t) __asm__("_ZdlPvm") __attribute__((weak));
extern void cxx_delete_sized_aligned(void *, size_t, size_t) __asm__("_ZdlPvmSt11align_val_t") __attribute__((weak));

/* printf would allocate in the heap that is being attacked. */
__attribute__((format(printf, 1, 2), unused)) static void say(const char *format, ...)
{
    char line[128];
    va_list list;
    va_start(list, format);
    int n = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    if (write(STDOUT_FILENO, line, (size_t)n) != n)
        _exit(2);
}

/* The attack went through. The process ends here, without the C library's clean-up, which may meet a broken heap. */
__attribute__((unused, noreturn)) static void open_(void)
{
    say("OPEN\n");
    _exit(0);
}

/* Names the address that is about to be misused, and hides its origin from the compiler. */
__attribute__((unused)) static void *wrong(void *address)
{
    say("ADDRESS 0x%zx\n", (size_t)(uintptr_t)address);
    __asm__("" : "+r"(address));
    return address;
}

/* Hides from the compiler where the address comes from, and what is written there. */
#define HIDE(p) __asm__ volatile("" : "+r"(p) : : "memory")

/* Returns a block, or ends the process: there is no attack without it. */
__attribute__((unused)) static char *take(size_t size)
{
    char *block = malloc(size);
    HIDE(block);
    if (!block)
        _exit(3);
    return block;
}

__attribute__((unused)) static void drop(void *block)
{
    HIDE(block);
    free(block);
}

#endif
