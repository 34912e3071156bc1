/* A program that loads a plugin, and gives it one request after another. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int count, char **words)
{
    void *plugin = dlopen("./filter.so", RTLD_NOW);
    union {
        void *address;
        int (*call)(const char *request);
    } filter = {plugin ? dlsym(plugin, "filter") : NULL};
    if (!filter.call) {
        fprintf(stderr, "host: %s\n", dlerror());
        return 1;
    }
    for (int i = 0; i < (count > 1 ? atoi(words[1]) : 1000); i++) {
        char *request = malloc(4096);
        snprintf(request, 4096, "GET /%d HTTP/1.1", i);
        filter.call(request);
        free(request);
    }
    return 0;
}
