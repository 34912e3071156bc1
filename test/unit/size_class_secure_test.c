/* size_class_test.c for the secure build's table, which has one class more. */
#define GB_SECURE 1
#include "size_class_test.c"
