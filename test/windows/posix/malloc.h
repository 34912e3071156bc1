/* The POSIX names of the allocation functions, by glebe's own functions, which report misuse under those names too. */
#ifndef POSIX_MALLOC_H
#define POSIX_MALLOC_H

#include_next <malloc.h>

#include <glebe.h>

#define aligned_alloc glebe_aligned_alloc
#define free_aligned_sized glebe_free_aligned_sized
#define free_sized glebe_free_sized
#define malloc_trim(pad) glebe_trim(NULL)
#define malloc_usable_size glebe_usable_size
#define memalign glebe_memalign
#define posix_memalign glebe_posix_memalign
#define pvalloc glebe_pvalloc
#define reallocarray glebe_reallocarray
#define valloc glebe_valloc

#endif
