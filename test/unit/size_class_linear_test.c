/* The same of the table for linear memory. */
#define GB_LINEAR 1
#include "size_class_test.c"
