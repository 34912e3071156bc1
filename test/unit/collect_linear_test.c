/* collect_test.c where memory is linear. */
#define GB_LINEAR 1
#include "collect_test.c"
