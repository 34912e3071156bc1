/* collect_test.c for linear memory. */
#define GB_LINEAR 1
#include "collect_test.c"
