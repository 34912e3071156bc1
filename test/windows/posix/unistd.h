/* The size of an OS page, which mingw's POSIX functions lack. */
#ifndef POSIX_UNISTD_H
#define POSIX_UNISTD_H

#include_next <unistd.h>

#define _SC_PAGESIZE 0
#define sysconf(what) 4096L /* on x86-64 and ARM64 */

#endif
