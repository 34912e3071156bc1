/* The public functions for heaps, and glebe_trim. The malloc family's counterparts are in api.c. */

#include "../serve/alloc.h"
#include "api.h"

/* Returns the heap that a public function was passed; NULL stands for the calling thread's. */
static glebe_heap *heap_or_self(glebe_heap *heap)
{
    return heap ? heap : gb_self;
}

glebe_heap *glebe_heap_create(size_t limit_bytes)
{
    GB_ENTRY;
    glebe_heap *heap = gb_heap_new(GB_HEAP_OWNED);
    if (!heap)
        return gb_out_of_memory();
    heap->limit_bytes = limit_bytes;
    return heap;
}

static void run_give(gb_page *page)
{
    if (GB_SECURE && (page->kind == GB_SMALL || page->kind == GB_MEDIUM))
        gb_secure_forget(page);
    gb_run_give(page);
}

static void list_give(gb_list *list)
{
    for (gb_page *page; (page = gb_list_first(list)) != NULL;) {
        gb_list_remove(list, page);
        run_give(page);
    }
}

void glebe_heap_destroy(glebe_heap *heap)
{
    GB_ENTRY;
    if (!heap)
        return;
    if (heap->kind != GB_HEAP_OWNED) {
        gb_report("glebe_heap_destroy", heap, "not a heap from glebe_heap_create, or destroyed already");
        return;
    }
    for (uint32_t cls = 0; cls < GB_CLASSES; cls++) {
        if (heap->current[cls].n)
            run_give(gb_page_at(heap->current[cls]));
        list_give(&heap->avail[cls]);
        if (GB_PURGES && gb_class_is_small(cls))
            list_give(&heap->spare[cls]);
    }
    if (GB_MIXES)
        gb_mixed_give(heap, true);
    list_give(&heap->full);
    gb_big_give(heap);
    heap->pools = NULL;
    gb_heap_retire(heap);
}

int glebe_heap_limit(glebe_heap *heap, size_t limit_bytes)
{
    GB_ENTRY;
    heap = heap_or_self(heap);
    if (heap->number.n == 0 && !(heap = gb_thread_start()))
        return ENOMEM;
    gb_lock_take(&gb_the.lock);
    bool passed = limit_bytes && gb_heap_held(heap) > limit_bytes;
    if (!passed)
        __atomic_store_n(&heap->limit_bytes, limit_bytes, __ATOMIC_RELAXED); /* other threads read it: remote.c */
    gb_lock_drop(&gb_the.lock);
    gb_thread_late();
    return passed ? EBUSY : 0;
}

size_t glebe_heap_bytes(const glebe_heap *heap)
{
    return gb_heap_held(heap ? heap : gb_self);
}

void *glebe_heap_malloc(glebe_heap *heap, size_t bytes)
{
    GB_ENTRY;
    return gb_with_tag(gb_alloc(heap_or_self(heap), bytes));
}

void *glebe_heap_calloc(glebe_heap *heap, size_t count, size_t bytes)
{
    GB_ENTRY;
    return gb_with_tag(gb_calloc(heap_or_self(heap), count, bytes));
}

void *glebe_heap_aligned_alloc(glebe_heap *heap, size_t alignment, size_t bytes)
{
    GB_ENTRY;
    if (!gb_is_pow2(alignment)) {
        errno = EINVAL;
        return NULL;
    }
    return gb_with_tag(gb_alloc_aligned(heap_or_self(heap), alignment, bytes));
}

void *glebe_heap_realloc(glebe_heap *heap, void *block, size_t bytes)
{
    GB_ENTRY;
    return gb_resize_stays(block, bytes) ? block : gb_resize("glebe_heap_realloc", heap_or_self(heap), block, bytes);
}

/* Between small sizes, copies without looking the block up: it has at least the bytes that the caller states. */
static GB_NOINLINE void *heap_resize_sized(glebe_heap *heap, void *block, size_t old_bytes, size_t bytes)
{
    if (GB_SECURE || old_bytes > GB_SMALL_MAX || bytes > GB_SMALL_MAX)
        return gb_resize("glebe_heap_realloc_sized", heap, block, bytes);
    size_t cls = gb_class_of_words(bytes);
    if (gb_class_of_words(old_bytes) == cls)
        return block;
    int saved = errno;
    void *fresh = gb_alloc_small(heap, cls);
    if (!fresh && bytes > old_bytes)
        return NULL;
    if (!fresh) {
        errno = saved; /* the old block serves the request */
        return block;
    }
    memcpy(fresh, block, old_bytes < bytes ? old_bytes : bytes);
    gb_free("glebe_heap_realloc_sized", heap, block);
    return fresh;
}

void *glebe_heap_realloc_sized(glebe_heap *heap, void *block, size_t old_bytes, size_t bytes)
{
    GB_ENTRY;
    heap = heap_or_self(heap);
    if (!block)
        return bytes ? gb_with_tag(gb_alloc_words(heap, bytes)) : NULL;
    if ((GB_SECURE || GB_AUDIT) && bytes && !gb_size_fits("glebe_heap_realloc_sized", block, old_bytes)) {
        errno = EINVAL;
        return NULL;
    }
    if (bytes)
        return heap_resize_sized(heap, block, old_bytes, bytes);
    gb_free_given("glebe_heap_realloc_sized", heap, block);
    return NULL;
}

void glebe_heap_free(glebe_heap *heap, void *block)
{
    GB_ENTRY;
    gb_free_given("glebe_heap_free", heap_or_self(heap), block);
}

void glebe_heap_free_sized(glebe_heap *heap, void *block, size_t bytes)
{
    GB_ENTRY;
    if ((GB_SECURE || GB_AUDIT) && block && !gb_size_fits("glebe_heap_free_sized", block, bytes))
        return;
    gb_free_given("glebe_heap_free_sized", heap_or_self(heap), block);
}

bool glebe_heap_owns(const glebe_heap *heap, const void *block)
{
    GB_ENTRY;
    heap = heap ? heap : gb_self;
    block = gb_without_tag("glebe_heap_owns", block);
    gb_page *entry = gb_page_entry(block);
    const gb_page *page = gb_page_around(block);
    /* of all heaps but the program's */
    if (GB_ZEROS && !page && (gb_zero_in_use(block) || gb_guard_in_use(block)))
        return heap->kind != GB_HEAP_OWNED;
    return page && page->kind != GB_FREE ? gb_heap_owns(heap, page)
                                         : gb_big_heap(entry, block) == heap;
}

/* ---- trim ---- */

size_t glebe_trim(glebe_heap *heap)
{
    GB_ENTRY;
    if (!gb_the.ready)
        return 0;
    return gb_retain_nothing(heap_or_self(heap));
}
