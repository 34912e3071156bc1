/* Shared by the program deepbind and its plugin: blocks of every kind, each made on one side and freed on the other. */
#ifndef DEEPBIND_H
#define DEEPBIND_H

#include "contract.h"

#include <malloc.h>
#include <new>
#include <pthread.h>
#include <string>

enum kind { SMALL, MEDIUM, LARGE, HUGE_ONE, CLEARED, ALIGNED, DUPLICATE, PRINTED, LINE, STREAM, PATH, GROWN, NEW_ONE,
    NEW_ARRAY, NEW_ALIGNED, STRING, IN_THREAD, KINDS };

struct alignas(64) wide { char bytes[200]; };

static void *make(int kind);

static void *make_in_thread(void *)
{
    return make(DUPLICATE);
}

static void *make(int kind)
{
    char *text = NULL;
    size_t bytes = 0;
    void *made = NULL;
    switch (kind) {
    case SMALL: return malloc(10);
    case MEDIUM: return malloc(3000);
    case LARGE: return malloc(100000);
    case HUGE_ONE: return malloc(3000000);
    case CLEARED: return calloc(30, 30);
    case ALIGNED: return memalign(256, 1000);
    case DUPLICATE: return strdup("a line of text that is longer than a few words");
    case PRINTED:
        CHECK(asprintf(&text, "%d and %s", 17, "more of it") > 0);
        return text;
    case LINE: {
        FILE *file = fopen("/proc/self/status", "r");
        CHECK(file && getline(&text, &bytes, file) > 0);
        fclose(file);
        return text;
    }
    case STREAM: {
        FILE *stream = open_memstream(&text, &bytes);
        CHECK(stream);
        for (int i = 0; i < 3000; i++)
            fprintf(stream, "%d ", i);
        fclose(stream);
        return text;
    }
    case PATH: return realpath("/", NULL);
    case GROWN: return realloc(malloc(100), 5000);
    case NEW_ONE: return new long(5);
    case NEW_ARRAY: return new char[5000];
    case NEW_ALIGNED: return new wide;
    case STRING: return new std::string(1000, 'x');
    default: {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, make_in_thread, NULL) == 0 && pthread_join(thread, &made) == 0);
        return made;
    }
    }
}

static void drop(int kind, void *block)
{
    CHECK(block);
    switch (kind) {
    case GROWN:
        block = realloc(block, 200000);
        CHECK(block && malloc_usable_size(block) >= 200000);
        free(block);
        return;
    case NEW_ONE: delete static_cast<long *>(block); return;
    case NEW_ARRAY: delete[] static_cast<char *>(block); return;
    case NEW_ALIGNED: delete static_cast<wide *>(block); return;
    case STRING: delete static_cast<std::string *>(block); return;
    default: free(block);
    }
}

struct deepbind_plugin {
    void *(*make)(int kind);
    void (*drop)(int kind, void *block);
    void *(*its_malloc)(size_t); /* malloc, as the plugin sees it */
    const char *whose; /* a name that program and plugin both define, as the plugin sees it */
};

#endif
