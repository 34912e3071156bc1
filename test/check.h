/* For programs that are tests by themselves, where there is no cmocka: they end with what did not hold. */
#ifndef TEST_CHECK_H
#define TEST_CHECK_H

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
