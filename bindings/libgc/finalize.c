/* Finalizers and disappearing links by bdwgc's names. The core has both: glebe_gc_order, glebe_gc_link_add. A finalizer
 * runs without the lock, in the thread that noticed that it is ready: after a call that allocated or collected, or in
 * GC_invoke_finalizers. */
#include "libgc.h"

typedef glebe_gc_final GC_finalization_proc;

/* ---- finalizers ---- */

static void final_register(void *object, GC_finalization_proc *function, void *data, GC_finalization_proc **old,
    void **old_data, unsigned order)
{
    if (!libgc_gc)
        GC_init();
    for (;;) {
        libgc_enter();
        int failed = glebe_gc_finalizer_order(
            libgc_gc, object, function, data, order | GLEBE_GC_ROOTS_CONTEXT, old, old_data);
        if (failed == EINVAL) { /* not an object: there is no finalizer, as documented */
            if (old)
                *old = NULL;
            if (old_data)
                *old_data = NULL;
        }
        libgc_leave();
        if (failed != ENOMEM || !GC_oom_fn(sizeof(gb_final)))
            return;
    }
}

#define REGISTER(name, order)                                                                                          \
    EXPORT void name(                                                                                                  \
        void *object, GC_finalization_proc *function, void *data, GC_finalization_proc **old, void **old_data)         \
    {                                                                                                                  \
        final_register(object, function, data, old, old_data, order);                                                  \
    }
REGISTER(GC_register_finalizer, GLEBE_GC_ORDERED)
REGISTER(GC_register_finalizer_ignore_self, GLEBE_GC_IGNORES_SELF)
REGISTER(GC_register_finalizer_no_order, GLEBE_GC_UNORDERED)
REGISTER(GC_register_finalizer_unreachable, GLEBE_GC_LAST)
REGISTER(GC_debug_register_finalizer, GLEBE_GC_ORDERED)
REGISTER(GC_debug_register_finalizer_ignore_self, GLEBE_GC_IGNORES_SELF)
REGISTER(GC_debug_register_finalizer_no_order, GLEBE_GC_UNORDERED)
REGISTER(GC_debug_register_finalizer_unreachable, GLEBE_GC_LAST)

EXPORT int GC_should_invoke_finalizers(void) { return libgc_gc && libgc_gc->ready != 0; }

EXPORT int GC_invoke_finalizers(void)
{
    int run = 0;
    for (; libgc_gc && libgc_gc->ready; run++) {
        libgc_enter();
        gb_final *final = libgc_gc->forced ? NULL : gb_ready_take(libgc_gc);
        gb_final taken = final ? gb_final_begin(final) : (gb_final){0};
        libgc_leave();
        if (!final)
            break;
        taken.function((void *)~taken.object, taken.context);
        libgc_enter();
        gb_final_end(libgc_gc, ~taken.object);
        libgc_leave();
    }
    return run;
}

/* A finalizer that allocates does not run further ones, which could nest without end. */
void libgc_finalize(void)
{
    static GB_TLS bool running;
    static GC_word told;
    if (GC_finalize_on_demand) {
        void (*notifier)(void) = GC_finalizer_notifier;
        libgc_after = false;
        if (notifier && libgc_gc->ready && __atomic_exchange_n(&told, GC_gc_no, __ATOMIC_RELAXED) != GC_gc_no)
            notifier();
        return;
    }
    if (running)
        return;
    running = true;
    libgc_after = false;
    GC_invoke_finalizers();
    running = false;
}

/* Also those that finalizers register: with a finalizer that always registers one, it does not end, as in bdwgc. */
EXPORT void GC_finalize_all(void)
{
    bool more = libgc_gc != NULL;
    while (more) {
        libgc_enter();
        gb_final *final = libgc_gc->finals.items;
        more = false;
        for (gb_final *end = final + libgc_gc->finals.room; final < end; final++)
            if (final->object && final->function && !final->ready) {
                final->ready = more = true;
                libgc_gc->ready++;
            }
        libgc_leave();
        GC_invoke_finalizers();
    }
}

/* ---- objects with a closure, by gc_disclaim.h ---- */

struct GC_finalizer_closure {
    GC_finalization_proc *proc;
    void *cd;
};

EXPORT void GC_init_finalized_malloc(void) { GC_init(); }

/* The closure may change until then. bdwgc keeps what an unreachable object of this kind refers to: an order. */
static void closure_call(void *object, void *data)
{
    const struct GC_finalizer_closure *closure = data;
    closure->proc(object, closure->cd);
}

EXPORT void *GC_finalized_malloc(size_t bytes, const struct GC_finalizer_closure *closure)
{
    void *object = GC_malloc(bytes);
    if (object)
        final_register(object, closure_call, (void *)(uintptr_t)closure, NULL, NULL, GLEBE_GC_ORDERED);
    return object;
}

/* ---- links ---- */

static int link_register(void **link, const void *object, bool is_long)
{
    if (!libgc_gc)
        GC_init();
    for (;;) {
        libgc_enter();
        int failed = glebe_gc_link_add(libgc_gc, link, object, is_long);
        libgc_leave();
        if (failed == ENOMEM && GC_oom_fn(sizeof(gb_weak_link)))
            continue;
        return failed == EEXIST ? GC_DUPLICATE : failed == ENOMEM ? GC_NO_MEMORY : GC_SUCCESS;
    }
}

static int link_unregister(void **link, bool is_long)
{
    if (!libgc_gc)
        return 0;
    libgc_enter();
    int failed = glebe_gc_link_remove(libgc_gc, link, is_long);
    libgc_leave();
    return !failed;
}

static int link_move(void **link, void **to, bool is_long)
{
    if (!libgc_gc)
        return GC_NOT_FOUND;
    libgc_enter();
    int failed = glebe_gc_link_move(libgc_gc, link, to, is_long);
    libgc_leave();
    return failed == EEXIST ? GC_DUPLICATE : failed == ENOMEM ? GC_NO_MEMORY : failed ? GC_NOT_FOUND : GC_SUCCESS;
}

EXPORT void *GC_base(void *address);
EXPORT int GC_general_register_disappearing_link(void **link, const void *object)
{
    return link_register(link, object, false);
}
EXPORT int GC_register_disappearing_link(void **link) { return link_register(link, GC_base(link), false); }
EXPORT int GC_unregister_disappearing_link(void **link) { return link_unregister(link, false); }
EXPORT int GC_move_disappearing_link(void **link, void **to) { return link_move(link, to, false); }
EXPORT int GC_register_long_link(void **link, const void *object) { return link_register(link, object, true); }
EXPORT int GC_unregister_long_link(void **link) { return link_unregister(link, true); }
EXPORT int GC_move_long_link(void **link, void **to) { return link_move(link, to, true); }
