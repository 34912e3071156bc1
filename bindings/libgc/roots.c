/* Static roots: the writable data of the program and of every library that is loaded, and what the program adds.
 *
 *     found     dl_iterate_phdr, before each collection in which something was loaded or unloaded since: writable
 *               segments without their read-only part (RELRO), and without this library's own data. The world stops
 *               while the loader's lock is held, so no thread is stopped between dlclose's unmapping and its end
 *     added     GC_add_roots             excluded    GC_exclude_static_roots: cut out of what was found
 *
 * All lists are blocks of the C library, which grow only while the world runs. */
#include "libgc.h"

#include <link.h>
#include <stdlib.h>

typedef struct ranges {
    gb_root *items;
    size_t count, room;
} ranges;

static ranges found, added, excluded;
static unsigned long long loads, unloads; /* when `found` was found */
typedef int GC_has_static_roots_func(const char *name, void *start, size_t bytes);
static GC_has_static_roots_func *filter;

static void ranges_add(ranges *to, uintptr_t from, uintptr_t end)
{
    if (from >= end)
        return;
    if (to->count == to->room) {
        size_t room = to->room ? 2 * to->room : 32;
        gb_root *items = realloc(to->items, room * sizeof *items);
        if (!items) {
            libgc_warn("no memory to record a root: objects may be lost\n", 0);
            abort();
        }
        to->items = items;
        to->room = room;
    }
    to->items[to->count++] = (gb_root){from, end};
}

static bool ranges_have(const ranges *in, uintptr_t address)
{
    for (size_t i = 0; i < in->count; i++)
        if (address >= in->items[i].from && address < in->items[i].to)
            return true;
    return false;
}

/* ---- loaded objects ---- */

static int object_changed(struct dl_phdr_info *info, size_t bytes, void *changed)
{
    (void)bytes;
    *(bool *)changed = info->dlpi_adds != loads || info->dlpi_subs != unloads;
    loads = info->dlpi_adds;
    unloads = info->dlpi_subs;
    return 1;
}

static int object_add(struct dl_phdr_info *info, size_t bytes, void *unused)
{
    (void)bytes, (void)unused;
    uintptr_t relro = 0, relro_end = 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_GNU_RELRO) {
            relro = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            relro_end = relro + info->dlpi_phdr[i].p_memsz;
        }
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + segment->p_vaddr, end = from + segment->p_memsz, own = (uintptr_t)&found;
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_W) || (own >= from && own < end))
            continue;
        if (filter && !filter(info->dlpi_name, (void *)from, end - from))
            continue;
        if (relro >= from && relro_end <= end) {
            ranges_add(&found, from, relro);
            from = relro_end;
        }
        ranges_add(&found, from, end);
    }
    return 0;
}

void libgc_roots_find(void)
{
    bool changed = false;
    if (GC_no_dls) {
        found.count = 0;
        loads = unloads = 0;
        return;
    }
    dl_iterate_phdr(object_changed, &changed);
    if (!changed)
        return;
    found.count = 0;
    dl_iterate_phdr(object_add, NULL);
}

static int roots_stop(struct dl_phdr_info *info, size_t bytes, void *unused)
{
    (void)info, (void)bytes, (void)unused;
    libgc_roots_find();
    libgc_world_stop();
    return 1;
}

void libgc_roots_stop(void)
{
    if (GC_no_dls)
        roots_stop(NULL, 0, NULL);
    else
        dl_iterate_phdr(roots_stop, NULL);
}

/* ---- marking ---- */

/* Marks [from, to) without the excluded ranges, from the i-th on. */
static void root_mark(glebe_gc *gc, uintptr_t from, uintptr_t to, size_t i)
{
    for (; i < excluded.count; i++) {
        const gb_root *out = &excluded.items[i];
        if (out->from >= to || out->to <= from)
            continue;
        root_mark(gc, from, out->from, i + 1);
        from = out->to;
    }
    if (from < to)
        glebe_gc_mark(gc, (const void *)from, (const void *)to);
}

void libgc_roots_mark(glebe_gc *gc)
{
    for (size_t i = 0; i < found.count; i++)
        root_mark(gc, found.items[i].from, found.items[i].to, 0);
    for (size_t i = 0; i < added.count; i++)
        root_mark(gc, added.items[i].from, added.items[i].to, 0);
}

bool libgc_roots_have(const void *address)
{
    libgc_roots_find();
    return ranges_have(&found, (uintptr_t)address) || ranges_have(&added, (uintptr_t)address);
}

/* ---- the program's roots ---- */

EXPORT void GC_add_roots(void *from, void *to)
{
    if (!libgc_gc)
        GC_init();
    libgc_enter();
    for (size_t i = 0; i < added.count; i++)
        if (added.items[i].from == (uintptr_t)from) {
            if (added.items[i].to < (uintptr_t)to)
                added.items[i].to = (uintptr_t)to;
            from = to;
        }
    ranges_add(&added, (uintptr_t)from, (uintptr_t)to);
    libgc_leave();
}

EXPORT void GC_remove_roots(void *from, void *to)
{
    libgc_enter();
    for (size_t i = 0; i < added.count;)
        if (added.items[i].from >= (uintptr_t)from && added.items[i].to <= (uintptr_t)to)
            added.items[i] = added.items[--added.count];
        else
            i++;
    libgc_leave();
}

EXPORT void GC_clear_roots(void)
{
    if (!libgc_gc)
        GC_init();
    libgc_enter();
    added.count = 0;
    libgc_leave();
}

EXPORT void GC_exclude_static_roots(void *from, void *to)
{
    libgc_enter();
    ranges_add(&excluded, (uintptr_t)from & ~(sizeof(void *) - 1), gb_round_up((uintptr_t)to, sizeof(void *)));
    libgc_leave();
}

EXPORT void GC_clear_exclusion_table(void)
{
    libgc_enter();
    excluded.count = 0;
    libgc_leave();
}

EXPORT void GC_register_has_static_roots_callback(GC_has_static_roots_func *function)
{
    libgc_enter();
    filter = function;
    loads = unloads = 0;
    libgc_leave();
}

EXPORT int GC_is_tmp_root(void *address)
{
    return !ranges_have(&added, (uintptr_t)address) && libgc_roots_have(address);
}
