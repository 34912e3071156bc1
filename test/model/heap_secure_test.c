/* The same model on the secure build, which counts and walks in places of its own. */
#define GB_SECURE 1
#include "heap_test.c"
