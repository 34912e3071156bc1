/* The part of the C library that the core uses: copying, comparing, errno. A WebAssembly module without WASI has no
 * C library. Compilers then supply the <string.h> functions themselves, and errno is a variable that nothing reads. */
#ifndef GB_LIBC_H
#define GB_LIBC_H

#include <stddef.h>

#if defined(__has_include)
#if !__has_include(<string.h>) || !__has_include(<errno.h>)
#define GB_NO_LIBC 1
#endif
#endif

#ifdef GB_NO_LIBC
void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *at, int byte, size_t bytes);
void *memchr(const void *at, int byte, size_t bytes);
int memcmp(const void *a, const void *b, size_t bytes);
size_t strlen(const char *text);
int strcmp(const char *a, const char *b);
int strncmp(const char *a, const char *b, size_t bytes);
char *strchr(const char *text, int byte);
#define errno gb_errno
static int gb_errno;
enum { ENOENT = 2, ENOMEM = 12, EBUSY = 16, EINVAL = 22, ENOSYS = 38 };
#else
#include <errno.h>
#include <string.h>
#endif

#endif
