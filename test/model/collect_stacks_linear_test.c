/* The model of collect_content_test.c if large objects may be a scheduler's stacks, and others look like stacks. */
#define GB_LINEAR 1
#define GB_STACKS 1
#include "collect_content_test.c"
