/* The same model on the audit build. */
#define GB_AUDIT 1
#include "heap_test.c"
