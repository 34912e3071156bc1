/* The same model where memory is linear: seed % 8 == 6 has somebody else let memory grow now and then. */
#define GB_LINEAR 1
#include "heap_test.c"
