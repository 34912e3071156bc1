/* The size of a page, beside what mingw has of POSIX. */
#ifndef POSIX_UNISTD_H
#define POSIX_UNISTD_H

#include_next <unistd.h>

#define _SC_PAGESIZE 0
#define sysconf(what) 4096L /* of x86-64 and ARM64 alike */

#endif
