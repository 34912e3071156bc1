/* pool_test.c for linear memory. */
#define GB_LINEAR 1
#include "pool_test.c"
