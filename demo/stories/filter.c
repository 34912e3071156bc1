/* A plugin that copies a header of each request, and forgets to free the copy. */
#include <stdlib.h>
#include <string.h>

static __attribute__((noinline)) char *remember_header(const char *request)
{
    char *copy = malloc(1000);
    return strncpy(copy, request, 999);
}

int filter(const char *request)
{
    char *header = remember_header(request);
    return header[0] == 'G';
}
