/* heap_test.c on the secure build, which has its own counts and walks. */
#define GB_SECURE 1
#include "heap_test.c"
