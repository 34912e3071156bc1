/* A program whose heap is pinned: two sites keep a few old blocks between many that are gone. It returns what it can
 * and says "ready"; then it reads names of sites, frees the blocks of each, returns what it can and says "done".
 * Arguments: the size of a session (a node is twice as large), of how many blocks one is kept, a seed. */
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 150000 };
static void *sessions[BLOCKS], *nodes[BLOCKS], *rows[BLOCKS], *requests[2 * BLOCKS];

#define SITE(name) __attribute__((noinline)) static void *name(size_t n) { return memset(malloc(n), 1, n); }
SITE(session_open)
SITE(node_insert)
SITE(row_read)
SITE(request_parse)

static void release(void **blocks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(blocks[i]);
        blocks[i] = NULL;
    }
    malloc_trim(0);
}

int main(int count, char **words)
{
    if (count != 4)
        return 2;
    size_t bytes = strtoul(words[1], NULL, 10), kept = strtoul(words[2], NULL, 10);
    uint64_t chance = strtoul(words[3], NULL, 10);
    for (size_t i = 0; i < BLOCKS; i++) {
        chance = chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        if ((chance >> 40) % kept == 0)
            sessions[i] = session_open(bytes);
        else
            requests[i] = request_parse(bytes);
        if ((chance >> 20) % kept == 0)
            nodes[i] = node_insert(2 * bytes);
        else
            requests[BLOCKS + i] = request_parse(2 * bytes);
        if (i % 10 == 0)
            rows[i] = row_read(3 * bytes);
    }
    release(requests, 2 * BLOCKS);
    puts("ready");
    fflush(stdout);
    char name[64];
    while (scanf("%63s", name) == 1) {
        release(strcmp(name, "session_open") == 0 ? sessions : strcmp(name, "node_insert") == 0 ? nodes : rows, BLOCKS);
        puts("done");
        fflush(stdout);
    }
    return 0;
}
