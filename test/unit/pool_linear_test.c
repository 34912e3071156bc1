/* pool_test.c where memory is linear. */
#define GB_LINEAR 1
#include "pool_test.c"
