/* CHECK(condition) ends the program with the line if the condition does not hold. */
#ifndef CHECK_H
#define CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                    \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#define HIDE(p) (~(uintptr_t)(p))

/* Overwrites what earlier calls left on the stack, and in registers that calls need not preserve. */
static __attribute__((noinline, unused)) void forget(void)
{
    volatile char trash[4096];
    for (size_t i = 0; i < sizeof trash; i++)
        trash[i] = 1;
}

#endif
