/* The same on the audit build. */
#define GB_AUDIT 1
#include "pool_test.c"
