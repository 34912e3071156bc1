/* The same model where memory is linear. */
#define GB_LINEAR 1
#include "collect_test.c"
