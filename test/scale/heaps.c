/* First-class heaps of glebe and of mimalloc. Their functions are found at run time, so that this program is linked
 * with no allocator. */
#include "scale.h"
#include <dlfcn.h>
#include <stdlib.h>

struct kind {
    void *(*create)(size_t limit_bytes); /* mimalloc's takes no argument, and ignores this one */
    void (*destroy)(void *heap);
    void *(*take)(void *heap, size_t bytes);
};

static bool found(struct kind *kind, const char *create, const char *destroy, const char *take)
{
    *(void **)&kind->create = dlsym(RTLD_DEFAULT, create);
    *(void **)&kind->destroy = dlsym(RTLD_DEFAULT, destroy);
    *(void **)&kind->take = dlsym(RTLD_DEFAULT, take);
    return kind->create && kind->destroy && kind->take;
}

static bool has_heaps(struct kind *kind)
{
    bool has = found(kind, "glebe_heap_create", "glebe_heap_destroy", "glebe_heap_malloc") ||
        found(kind, "mi_heap_new", "mi_heap_destroy", "mi_heap_malloc");
    if (!has)
        say("lacks_heaps", 1);
    return has;
}

/* COUNT BLOCKS MS: every second heap is destroyed and created anew, then all are destroyed with their blocks. */
void heaps_case(const size_t *argument)
{
    size_t count = argument[0], blocks = argument[1], failed = 0, done = 1;
    /* If the cap ends the loop, `done` is the number of heaps. */
    void **heaps = outside(count * sizeof *heaps);
    char **at = outside(count * blocks * sizeof *at);
    struct kind kind;
    begin();
    if (!has_heaps(&kind))
        return;
    for (size_t step = 1; step <= 2; step++) {
        for (size_t i = 0; i < count && (i % 64 || !over_cap()); i += step) {
            done = i + 1 > done ? i + 1 : done;
            if (heaps[i])
                kind.destroy(heaps[i]);
            heaps[i] = kind.create(0);
            failed += !heaps[i];
            for (size_t j = 0; heaps[i] && j < blocks; j++) {
                size_t bytes = 16 + mixed(i * blocks + j) % 400;
                at[i * blocks + j] = kind.take(heaps[i], bytes);
                if (at[i * blocks + j])
                    stamp(at[i * blocks + j], bytes, i * blocks + j, false);
                else
                    failed++;
            }
        }
    }
    mappings();
    say_resident("live_kb");
    say("kb_each", (double)resident_kb() / (double)done);
    size_t live_kb = resident_kb();
    for (size_t i = 0; i < count * blocks; i++)
        if (at[i])
            check_stamp(at[i], 16 + mixed(i) % 400, i, false);
    for (size_t i = 0; i < count; i++)
        if (heaps[i])
            kind.destroy(heaps[i]);
    refuse(failed);
    light_work(argument[2]);
    say("after_light_of_freed", (double)resident_kb() / (double)live_kb);
}

/* COUNT */
void churn_case(const size_t *argument)
{
    enum { KEPT = 64 };
    void *kept[KEPT] = {0};
    struct kind kind;
    size_t failed = 0;
    begin();
    if (!has_heaps(&kind))
        return;
    uint64_t from = process_cpu_ns();
    for (size_t i = 0; i < argument[0]; i++) {
        size_t place = mixed(i) % KEPT;
        if (kept[place])
            kind.destroy(kept[place]);
        kept[place] = kind.create(0);
        char *block = kept[place] ? kind.take(kept[place], 64) : NULL;
        if (block)
            *block = 1;
        else
            failed++;
    }
    say("us_each", (double)(process_cpu_ns() - from) / 1e3 / (double)argument[0]);
    mappings();
    say_resident("live_kb");
    for (size_t i = 0; i < KEPT; i++)
        if (kept[i])
            kind.destroy(kept[i]);
    refuse(failed);
}
