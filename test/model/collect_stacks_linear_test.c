/* The model of collect_content_test.c where large objects may be a scheduler's stacks, and others look like some. */
#define GB_LINEAR 1
#define GB_STACKS 1
#include "collect_content_test.c"
