/* size_class_test.c for linear memory's table. */
#define GB_LINEAR 1
#include "size_class_test.c"
