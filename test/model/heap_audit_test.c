/* heap_test.c on the audit build. */
#define GB_AUDIT 1
#include "heap_test.c"
