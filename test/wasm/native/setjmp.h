/* A module has no long jumps; a jump ends the program. */
#ifndef SETJMP_STANDS_IN_H
#define SETJMP_STANDS_IN_H

#include <stdlib.h>

typedef int jmp_buf[1];
#define setjmp(buffer) ((void)(buffer), 0)
#define longjmp(buffer, value) abort()

#endif
