/* The shape of this build: where each field is that a reader outside the process needs. `glebe explain`, `leaks` and
 * `map` read the tables of a running process; they contain no C, and learn the layout from here.
 *
 *     shape      magic | version | word_bytes | count | &glebe_live | &gb_the | gb_classes | names | values[count]
 *     names      "page\0page.kind\0...\0\0"           a type's name has its size, a field's its offset
 *
 * The reader finds glebe_live by its magic, and in the same file the shape that leads to it. A change of a field's
 * place changes the values only. A change of what a field means, or of the steps that a reader takes (out of a page,
 * lists of free blocks, states), needs a new GB_SHAPE_VERSION, and changes in cli/src/explain/heap.rs. */
#include "debug.h"

#define GB_SHAPE_MAGIC UINT64_C(0x676c656265534841)
#define GB_SHAPE_VERSION 6

#define SIZE(X, name, type) X(name, sizeof(type))
#define FIELD(X, name, type, field) X(name "." #field, offsetof(type, field))
#define SHAPE(X)                                                                                                       \
    X("secure", GB_SECURE)                                                                                             \
    X("keyed", GB_KEYED)                                                                                               \
    X("safe", GB_SAFE)                                                                                                 \
    X("link_at", GB_LINK_AT)                                                                                           \
    X("audit", GB_AUDIT)                                                                                               \
    X("slice_log2", GB_SLICE_LOG2)                                                                                     \
    X("chunk_log2", GB_CHUNK_LOG2)                                                                                     \
    X("granule_log2", GB_GRANULE_LOG2)                                                                                 \
    X("unit_log2", GB_UNIT_LOG2)                                                                                       \
    X("large_least", GB_LARGE_LEAST)                                                                                   \
    X("classes", GB_CLASSES)                                                                                           \
    X("small_classes", GB_SMALL_CLASSES)                                                                               \
    X("mixed", GB_MIXED)                                                                                               \
    X("wake_bytes", GB_WAKE_BYTES)                                                                                     \
    X("wake_least", GB_WAKE_LEAST)                                                                                     \
    X("wake_most", GB_WAKE_MOST)                                                                                       \
    X("marks", GB_MARKS)                                                                                               \
    X("remote_slots", GB_REMOTE_SLOTS)                                                                                 \
    X("borrowed_classes", GB_BORROWED_CLASSES)                                                                         \
    X("bits_tables", GB_BITS)                                                                                          \
    SIZE(X, "class", gb_class)                                                                                         \
    FIELD(X, "class", gb_class, bytes)                                                                                 \
    SIZE(X, "page", gb_page)                                                                                           \
    FIELD(X, "page", gb_page, back_bytes)                                                                              \
    FIELD(X, "page", gb_page, kind)                                                                                    \
    FIELD(X, "page", gb_page, cls)                                                                                     \
    FIELD(X, "page", gb_page, state)                                                                                   \
    FIELD(X, "page", gb_page, mark)                                                                                    \
    FIELD(X, "page", gb_page, warm)                                                                                    \
    FIELD(X, "page", gb_page, free)                                                                                    \
    FIELD(X, "page", gb_page, xfree)                                                                                   \
    X("xfree.first_mask", GB_XFREE_FIRST(UINT64_MAX))                                                                  \
    X("xfree.count_mask", GB_XFREE_COUNT(UINT64_MAX))                                                                  \
    X("xfree.count_shift", GB_XFREE_COUNT_SHIFT)                                                                       \
    X("xfree.purged_high", GB_XFREE_PURGED >> 32)                                                                      \
    FIELD(X, "page", gb_page, bits)                                                                                    \
    FIELD(X, "page", gb_page, dirty)                                                                                   \
    FIELD(X, "page", gb_page, notify)                                                                                  \
    X("notify.purged", GB_NOTIFY_PURGED)                                                                               \
    FIELD(X, "page", gb_page, step)                                                                                    \
    FIELD(X, "page", gb_page, left)                                                                                    \
    FIELD(X, "page", gb_page, out)                                                                                     \
    FIELD(X, "page", gb_page, heap)                                                                                    \
    FIELD(X, "page", gb_page, cap)                                                                                     \
    FIELD(X, "page", gb_page, bump)                                                                                    \
    FIELD(X, "page", gb_page, holes)                                                                                   \
    FIELD(X, "page", gb_page, slices)                                                                                  \
    FIELD(X, "page", gb_page, units)                                                                                   \
    X("heap", GB_HEAP_STRIDE)                                                                                          \
    FIELD(X, "heap", glebe_heap, front)                                                                                \
    FIELD(X, "heap", glebe_heap, warm)                                                                                 \
    FIELD(X, "heap", glebe_heap, kind)                                                                                 \
    FIELD(X, "heap", glebe_heap, limit_bytes)                                                                          \
    FIELD(X, "heap", glebe_heap, collected_bytes)                                                                      \
    FIELD(X, "heap", glebe_heap, remote)                                                                               \
    FIELD(X, "heap", glebe_heap, borrowed)                                                                             \
    FIELD(X, "heap", glebe_heap, sampling.few)                                                                         \
    FIELD(X, "heap", glebe_heap, sampling.warm_least)                                                                  \
    FIELD(X, "heap", glebe_heap, sampling.medium_most)                                                                 \
    FIELD(X, "heap", glebe_heap, sampling.on)                                                                          \
    SIZE(X, "remote", gb_remote)                                                                                       \
    FIELD(X, "remote", gb_remote, page)                                                                                \
    FIELD(X, "remote", gb_remote, count)                                                                               \
    FIELD(X, "remote", gb_remote, first)                                                                               \
    SIZE(X, "borrowed", gb_borrowed)                                                                                   \
    FIELD(X, "borrowed", gb_borrowed, first)                                                                           \
    SIZE(X, "chunk", gb_chunk)                                                                                         \
    FIELD(X, "chunk", gb_chunk, free)                                                                                  \
    FIELD(X, "chunk", gb_chunk, dirty)                                                                                 \
    FIELD(X, "chunk", gb_chunk, idle)                                                                                  \
    FIELD(X, "chunk", gb_chunk, lazy)                                                                                  \
    FIELD(X, "chunk", gb_chunk, huge_pages)                                                                            \
    SIZE(X, "extent", gb_extent)                                                                                       \
    FIELD(X, "extent", gb_extent, bytes)                                                                               \
    FIELD(X, "extent", gb_extent, granules)                                                                            \
    FIELD(X, "extent", gb_extent, state)                                                                               \
    FIELD(X, "extent", gb_extent, warm)                                                                                \
    FIELD(X, "extent", gb_extent, held)                                                                                \
    FIELD(X, "extent", gb_extent, collected)                                                                           \
    SIZE(X, "region", gb_region)                                                                                       \
    FIELD(X, "region", gb_region, base)                                                                                \
    FIELD(X, "region", gb_region, slices)                                                                              \
    FIELD(X, "region", gb_region, heads)                                                                               \
    FIELD(X, "region", gb_region, table)                                                                               \
    FIELD(X, "region", gb_region, large)                                                                               \
    FIELD(X, "region", gb_region, extents_base)                                                                        \
    FIELD(X, "region", gb_region, extents)                                                                             \
    FIELD(X, "region", gb_region, heaps)                                                                               \
    FIELD(X, "region", gb_region, chunk_table)                                                                         \
    FIELD(X, "region", gb_region, key)                                                                                 \
    FIELD(X, "region", gb_region, unkey)                                                                               \
    FIELD(X, "region", gb_region, bits)                                                                                \
    FIELD(X, "region", gb_region, shadow)                                                                              \
    FIELD(X, "region", gb_region, heap_bits)                                                                           \
    FIELD(X, "region", gb_region, ready)                                                                               \
    FIELD(X, "region", gb_region, page_bytes)                                                                          \
    FIELD(X, "region", gb_region, committed.large)                                                                     \
    FIELD(X, "region", gb_region, committed.heads)                                                                     \
    FIELD(X, "region", gb_region, committed.table)                                                                     \
    FIELD(X, "region", gb_region, committed.chunk_table)                                                               \
    FIELD(X, "region", gb_region, committed.heaps)                                                                     \
    FIELD(X, "region", gb_region, committed.heap_bits)                                                                 \
    FIELD(X, "region", gb_region, committed.extents)                                                                   \
    FIELD(X, "region", gb_region, committed.spans)                                                                     \
    FIELD(X, "region", gb_region, committed.shadow)                                                                    \
    FIELD(X, "region", gb_region, records.made)                                                                        \
    FIELD(X, "region", gb_region, arena.chunks)                                                                        \
    FIELD(X, "region", gb_region, huge.top)                                                                            \
    FIELD(X, "region", gb_region, spans.states)                                                                        \
    FIELD(X, "region", gb_region, options.background)                                                                  \
    FIELD(X, "region", gb_region, options.no_huge_pages)                                                               \
    FIELD(X, "region", gb_region, options.purge_ms)                                                                    \
    FIELD(X, "region", gb_region, options.purge_lazily)                                                                \
    FIELD(X, "region", gb_region, options.limit)                                                                       \
    X("samples", GB_SAMPLES)                                                                                           \
    X("sample_chunk_bytes", GB_SAMPLE_CHUNK_BYTES)                                                                     \
    X("sample_chunks", GB_SAMPLE_CHUNKS)                                                                               \
    FIELD(X, "region", gb_region, ask.state)                                                                           \
    FIELD(X, "region", gb_region, ask.beat)                                                                            \
    FIELD(X, "region", gb_region, ask.error)                                                                           \
    FIELD(X, "region", gb_region, ask.ours)                                                                            \
    FIELD(X, "region", gb_region, ask.mean_bytes)                                                                      \
    FIELD(X, "region", gb_region, sampler.heap)                                                                        \
    FIELD(X, "region", gb_region, sampler.on)                                                                          \
    FIELD(X, "region", gb_region, sampler.profiles)                                                                    \
    FIELD(X, "region", gb_region, sampler.mean_bytes)                                                                  \
    FIELD(X, "region", gb_region, sampler.samples)                                                                     \
    FIELD(X, "region", gb_region, sampler.frames)                                                                      \
    FIELD(X, "region", gb_region, sampler.sites)                                                                       \
    FIELD(X, "region", gb_region, sampler.labels)                                                                      \
    FIELD(X, "region", gb_region, sampler.sample_heads)                                                                \
    FIELD(X, "region", gb_region, sampler.peak_bytes)                                                                  \
    FIELD(X, "region", gb_region, sampler.peak_number)                                                                 \
    FIELD(X, "region", gb_region, sampler.taken)                                                                       \
    FIELD(X, "region", gb_region, sampler.lost)                                                                        \
    FIELD(X, "records", gb_records, chunks)                                                                            \
    FIELD(X, "records", gb_records, count)                                                                             \
    SIZE(X, "sample", gb_sample)                                                                                       \
    FIELD(X, "sample", gb_sample, block)                                                                               \
    FIELD(X, "sample", gb_sample, objects)                                                                             \
    FIELD(X, "sample", gb_sample, bytes)                                                                               \
    FIELD(X, "sample", gb_sample, born)                                                                                \
    FIELD(X, "sample", gb_sample, site)                                                                                \
    SIZE(X, "frame", gb_frame)                                                                                         \
    FIELD(X, "frame", gb_frame, address)                                                                               \
    FIELD(X, "frame", gb_frame, caller)                                                                                \
    FIELD(X, "frame", gb_frame, label)                                                                                 \
    SIZE(X, "label", gb_label)                                                                                         \
    FIELD(X, "label", gb_label, key)                                                                                   \
    FIELD(X, "label", gb_label, value)                                                                                 \
    SIZE(X, "site", gb_site)                                                                                           \
    FIELD(X, "site", gb_site, allocated)                                                                               \
    FIELD(X, "site", gb_site, live)                                                                                    \
    FIELD(X, "site", gb_site, peak)                                                                                    \
    FIELD(X, "site", gb_site, peak_number)                                                                             \
    FIELD(X, "site", gb_site, freed)                                                                                   \
    X("lifetimes", GB_LIFETIMES)                                                                                       \
    FIELD(X, "site", gb_site, frame)                                                                                   \
    SIZE(X, "bits", gb_bits)                                                                                           \
    FIELD(X, "bits", gb_bits, allocated)                                                                               \
    FIELD(X, "bits", gb_bits, unmarked)                                                                                \
    FIELD(X, "bits", gb_bits, waiting)                                                                                 \
    FIELD(X, "bits", gb_bits, allocated_committed)                                                                     \
    FIELD(X, "bits", gb_bits, unmarked_committed)                                                                      \
    FIELD(X, "bits", gb_bits, waiting_committed)

#define SHAPE_NAME(name, value) name "\0"
#define SHAPE_VALUE(name, value) (uint32_t)(value),
#define SHAPE_COUNT(name, value) +1
enum { SHAPE_VALUES = 0 SHAPE(SHAPE_COUNT) };

static const char shape_names[] = SHAPE(SHAPE_NAME);

/* A pointer in eight bytes, on hosts of any word size. */
typedef union shape_pointer {
    const void *at;
    uint64_t word;
} shape_pointer;

typedef struct shape {
    uint64_t magic;
    uint32_t version, word_bytes, count, bytes;
    shape_pointer live, region, classes, names;
    uint32_t values[SHAPE_VALUES];
} shape;

static const shape shape_here = {GB_SHAPE_MAGIC, GB_SHAPE_VERSION, sizeof(void *), SHAPE_VALUES,
    sizeof shape_names, {&glebe_live}, {&gb_the}, {gb_classes}, {shape_names}, {SHAPE(SHAPE_VALUE)}};

/* Keeps the linker from leaving the shape out. */
const void *gb_shape_address(void)
{
    return &shape_here;
}

void gb_shape_each(void (*each)(gb_text *out, const void *start, size_t bytes), gb_text *out)
{
    each(out, &shape_here, sizeof shape_here);
    each(out, shape_names, sizeof shape_names);
}
