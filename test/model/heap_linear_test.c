/* heap_test.c for linear memory: with seed % 8 == 6 other code sometimes grows memory. */
#define GB_LINEAR 1
#include "heap_test.c"
