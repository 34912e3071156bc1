/* The same model where memory is linear: with seed % 8 == 6 other code grows memory now and then. */
#define GB_LINEAR 1
#include "heap_test.c"
