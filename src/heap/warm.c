/* Warm blocks: blocks over 2 KiB that were freed last. Their heap keeps them for its next requests of their size,
 * because most of them are buffers that come and go. Neither malloc nor free takes a lock for them.
 *
 *     medium          one of each class                      big.c takes and keeps them
 *     large, huge     up to GB_WARM_BLOCKS, up to GB_WARM_BYTES in all; less if heaps are many
 *
 * A warm block counts as in use, in its page and in the statistics. All warm blocks are returned every 16 ms, and when
 * the heap grows. A request for a large or huge block that finds no warm one returns the large and huge ones first: so
 * it can use their memory, and they never add to the peak of their heap. The secure and the audit build have no warm
 * blocks.
 *
 * Only the owner calls these functions, except gb_warm_inherit. */
#include "heap.h"

static void medium_cool(glebe_heap *heap)
{
    for (uint32_t i = 0; i < GB_CLASSES - GB_SMALL_CLASSES; i++)
        if (heap->warm[i]) {
            void *block = heap->warm[i];
            heap->warm[i] = NULL;
            if (!gb_medium_return(heap, gb_page_head(gb_page_entry(block)), block))
                gb_report_address("free", block);
        }
}

static void big_return(const gb_warm *warm)
{
    *warm->flag = 0;
    if (gb_page_entry(warm->block))
        gb_run_give(gb_large_at(warm->block));
    else
        gb_huge_free(gb_huge_find(warm->block));
}

void gb_warm_return(glebe_heap *heap)
{
    heap->warm_bytes = 0;
    while (heap->warm_count)
        big_return(&heap->warm_big[--heap->warm_count]);
}

void gb_heap_cool(glebe_heap *heap)
{
    medium_cool(heap);
    gb_warm_return(heap);
}

/* Takes a block if it wastes less than a 16th of the request plus a slice. */
void *gb_warm_take(glebe_heap *heap, size_t bytes)
{
    size_t spare = bytes / 16 + GB_SLICE_BYTES;
    for (gb_warm *first = heap->warm_big, *last = first + heap->warm_count - 1, *warm = last; warm >= first; warm--)
        if (warm->bytes >= bytes && warm->bytes - bytes < spare) {
            void *block = warm->block;
            heap->warm_count--;
            heap->warm_bytes -= warm->bytes;
            *warm->flag = 0;
            *warm = *last;
            return block;
        }
    return NULL;
}

bool gb_warm_keep(glebe_heap *heap, void *block, size_t bytes, uint8_t *flag)
{
    if (GB_SECURE || GB_AUDIT || heap->warm_count == GB_WARM_BLOCKS || !gb_bounds_warm(heap, bytes))
        return false;
    *flag = 1;
    heap->warm_big[heap->warm_count++] = (gb_warm){block, bytes, flag};
    heap->warm_bytes += bytes;
    return true;
}

/* The owner changed these two lists only under the lock, so they can be trusted; fields that it wrote without the lock
 * cannot. A block that is marked warm was freed, wherever its owner stopped. */
void gb_warm_inherit(glebe_heap *dead)
{
    for (gb_page *large = gb_list_first(&dead->large), *next; large; large = next) {
        next = gb_list_next(large);
        if (large->warm)
            gb_run_give(large);
    }
    for (gb_extent *extent = gb_extent_if(dead->huge.first), *next; extent; extent = next) {
        next = gb_extent_if(extent->links.next);
        if (extent->warm) {
            extent->warm = 0;
            gb_huge_free(extent);
        }
    }
}
