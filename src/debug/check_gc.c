/* glebe_gc_check: a collector's pages, marks, tables and huge objects. */
#include "check.h"

static void check_collected(gb_check *check, glebe_gc *gc, gb_list *list, gb_cursor *cursor, size_t *bytes)
{
    for (const gb_page *page = gb_list_first(list); page; page = gb_list_next(page)) {
        const uint64_t *allocated = gb_page_bits(gb_bits_of(gc)->allocated, page),
                       *unmarked = gb_page_bits(gb_bits_of(gc)->unmarked, page),
                       *waiting = gb_page_bits(gb_bits_of(gc)->waiting, page);
        CHECK(page->kind == (cursor ? GB_COLLECTED : GB_COLLECTED_LARGE) && page->state == GB_SWEPT, 4, page,
            "a page is on the list of another kind");
        CHECK(!cursor
                || (page->cls == cursor->cls && page->layout == cursor->layout
                    && page->cursor == (uint32_t)(cursor - gc->cursors)),
            4, page, "a page is on the list of another cursor");
        CHECK(gb_heap_owns(gc->heap, page), 4, page, "a page is on the list of another collector");
        CHECK(gc->marking || (page->gc_flags & ~GB_CLEAN) == 0, 8, page, "a page has flags of marking, but none runs");
        uint32_t objects = 0, bits = 0;
        for (uint32_t i = 0; i < page->cap; i++)
            objects += gb_bit(allocated, i * (page->step / GB_CELL_BYTES));
        for (uint32_t i = 0; i < gb_page_words(page); i++) {
            bits += gb_popcount64(allocated[i]);
            CHECK((unmarked[i] & (gc->marking ? ~allocated[i] : ~(uint64_t)0)) == 0, 8, page,
                "an object awaits its mark but is not allocated");
            CHECK(waiting[i] == 0, 8, page, "an object still waits for its scan");
        }
        CHECK(objects == bits, 8, page, "a bit is set where no object starts");
        *bytes += gb_page_bytes(page);
    }
    if (!cursor || (cursor->at == cursor->end && !cursor->rest))
        return;
    const gb_page *page = gb_page_if(cursor->page);
    CHECK(!cursor->rest || (~gb_bits_of(gc)->allocated[gb_cell(cursor->end) / 64] & cursor->rest) == 0, 8, page,
        "an object that a cursor is to hand out is not allocated");
    CHECK(page && cursor->at - gb_page_start(page) <= gb_page_bytes(page)
            && cursor->end - gb_page_start(page) <= gb_page_bytes(page),
        8, page, "a cursor's gap is not in its page");
    for (uintptr_t at = cursor->at; at < cursor->end; at += sizeof(uintptr_t))
        if (*(const uintptr_t *)at != 0) {
            gb_check_fail(check, 8, (const void *)at, "a cursor's gap is not zero");
            break;
        }
}

static void check_huge_objects(gb_check *check, const glebe_gc *gc)
{
    const gb_huge_object *objects = gc->huge.items;
    uintptr_t before = gc->huge_from;
    size_t bytes = 0;
    for (uint32_t i = 0; i < gc->huge.count; i++) {
        const gb_extent *extent = GB_HUGE ? gb_huge_find((const void *)objects[i].from) : NULL;
        CHECK(extent && extent->collected && extent->heap.n == gc->heap->number.n
                && extent->bytes == objects[i].to - objects[i].from,
            8, objects[i].from, "a huge object and its extent differ");
        CHECK(objects[i].from >= before && objects[i].to - gc->huge_from <= gc->huge_span, 8, objects[i].from,
            "huge objects are not sorted by address");
        before = objects[i].to;
        bytes += objects[i].to - objects[i].from;
    }
    CHECK(bytes == gc->huge_bytes, 8, gc, "the count of huge objects' bytes is wrong");
    CHECK(gc->huge_waiting == 0, 8, gc, "a huge object still waits for its scan");
}

/* Checks that each finalizer has an object, and that the count of ready ones is right. */
static void check_finals(gb_check *check, const glebe_gc *gc)
{
    const gb_final *finals = gc->finals.items;
    uint32_t ready = 0;
    size_t bytes;
    for (uint32_t i = 0; i < gc->finals.room; i++) {
        if (!finals[i].object)
            continue;
        CHECK(gb_object_bounds(gc, ~finals[i].object, &bytes) == ~finals[i].object, 8, ~finals[i].object,
            "a finalizer's object is not allocated");
        CHECK(finals[i].function || finals[i].running, 8, ~finals[i].object, "a finalizer has no function");
        ready += finals[i].ready;
    }
    CHECK(ready == gc->ready, 8, gc, "the count of ready finalizers is wrong");
}

int glebe_gc_check(glebe_gc *gc, glebe_check_report *report, void *context)
{
    GB_ENTRY;
    gb_check state = {report, context, 2, 0, 0}, *check = &state;
    size_t bytes = 0;
    gb_lock_take(&gb_the.lock); /* other threads may create and destroy collectors meanwhile */
    bool counted = gb_bits_of(gc)->collectors > 0;
    gb_lock_drop(&gb_the.lock);
    for (uint32_t i = 0; i <= GB_CURSORS; i++)
        check_collected(check, gc, gb_collected_list(gc, i), i < GB_CURSORS ? &gc->cursors[i] : NULL, &bytes);
    CHECK(bytes == gc->heap->collected_bytes, 7, gc, "the count of the collector's bytes is wrong");
    CHECK(gb_table_well(&gc->finals, sizeof(gb_final)), 8, gc, "a finalizer is not where its key hashes to");
    CHECK(gb_table_well(&gc->roots, sizeof(gb_rooted)), 8, gc, "a root is not where its key hashes to");
    CHECK(gb_table_well(&gc->weak, sizeof(gb_weak)), 8, gc, "a weak reference is not where its key hashes to");
    CHECK(gb_table_well(&gc->pins, sizeof(gb_pin)), 8, gc, "a pin is not where its key hashes to");
    CHECK(gb_table_well(&gc->links, sizeof(gb_weak_link)), 8, gc, "a link is not where its key hashes to");
    CHECK(counted, 8, gc, "no collector is counted, so the tables of bits may be too short");
    check_finals(check, gc);
    if (GB_HUGE)
        check_huge_objects(check, gc);
    gb_check_heap(check, gc->heap);
    return state.broken;
}
