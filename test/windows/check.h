/* A program here ends with what did not hold. */
#ifndef TEST_WINDOWS_CHECK_H
#define TEST_WINDOWS_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition) \
    do \
        if (!(condition)) { \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1); \
        } \
    while (0)

#endif
