/* Huge pages for huge blocks: spans of 2 MiB of the extents' address space.
 *
 *     extents:  | used       | used   | idle      | used | clean        |         top
 *     spans:    |        |        |        |        |        |        |           each: huge, small again, or neither
 *
 * If memory is touched densely, spans ask for huge pages when they are committed, before any thread touches them;
 * extent.c then commits whole spans. Some spans do not ask: they are samples. The last sample that blocks had time
 * to fill shows whether memory is dense. As with chunks, one span in eight is timed (arena.c).
 *
 * The kernel fills holes in huge pages again. So a span of which a quarter was purged asks for small pages, until
 * all of it is purged. An immediate purge takes whole spans first. Where adjacent spans differ, the kernel needs one
 * more mapping: so samples become rarer, and the number of spans that are small again is bounded. docs/decisions/0029
 * has the figures.
 *
 * Everything here is under gb_the.lock. */
#include "region.h"

enum {
    SPANS_FIRST = 8,
    SPANS_FAR = 4096,
    SAMPLE_EVERY = 16,
    SAMPLE_FAR = 256,
    SAMPLE_LATER = 2,
    SPANS_SMALL_MOST = 1024
};

static uintptr_t span_start(uint32_t span) { return gb_the.extents_base + ((uintptr_t)span << GB_CHUNK_LOG2); }
static uint32_t span_of(uintptr_t at) { return (uint32_t)((at - gb_the.extents_base) >> GB_CHUNK_LOG2); }

static enum gb_span_state span_state(uint32_t span)
{
    return (enum gb_span_state)gb_the.spans.states[span];
}

static void span_set(uint32_t span, enum gb_span_state state)
{
    bool was = span_state(span) == GB_SPAN_HUGE;
    gb_the.spans.huge -= was;
    gb_the.spans.small -= span_state(span) == GB_SPAN_SMALL;
    gb_the.spans.states[span] = (uint8_t)state;
    gb_the.spans.huge += state == GB_SPAN_HUGE;
    gb_the.spans.small += state == GB_SPAN_SMALL;
    glebe_live.stats.huge_page_bytes += was ? -(uint64_t)GB_CHUNK_BYTES : 0;
    glebe_live.stats.huge_page_bytes += state == GB_SPAN_HUGE ? GB_CHUNK_BYTES : 0;
}

bool gb_spans_reach(uintptr_t end)
{
    return gb_meta_commit(gb_the.spans.states, &gb_the.committed.spans, (size_t)span_of(end) + 1);
}

/* The first spans are samples too: they never ask. */
static bool span_samples(uint32_t span)
{
    return span < SPANS_FIRST || span % (span < SPANS_FAR ? SAMPLE_EVERY : SAMPLE_FAR) == SAMPLE_EVERY - 2;
}

bool gb_span_huge(uintptr_t at)
{
    return gb_the.spans.huge && span_state(span_of(at)) == GB_SPAN_HUGE;
}

bool gb_spans_dense(uintptr_t top)
{
    uint32_t sample = span_of(top);
    if (GB_SECURE || gb_the.options.no_huge_pages || gb_the.limited || sample < SPANS_FIRST)
        return false;
    for (sample -= SAMPLE_LATER; !span_samples(sample);)
        sample--;
    if (sample != gb_the.spans.sample) {
        gb_the.spans.sample = sample;
        gb_the.spans.dense = gb_port_resident(span_start(sample), GB_CHUNK_BYTES) >= GB_CHUNK_BYTES / 4 * 3;
    }
    return gb_the.spans.dense;
}

void gb_spans_ask(uintptr_t from, uintptr_t end)
{
    for (from = gb_round_up(from, GB_CHUNK_BYTES); from + GB_CHUNK_BYTES <= end; from += GB_CHUNK_BYTES)
        if (!span_samples(span_of(from)) && gb_huge_page_ask(from))
            span_set(span_of(from), GB_SPAN_HUGE);
}

void gb_spans_decommitted(uintptr_t at, size_t bytes)
{
    for (uint32_t span = span_of(at); gb_the.spans.huge + gb_the.spans.small > 0 && span_start(span) < at + bytes;
        span++)
        span_set(span, GB_SPAN_NONE);
}

void gb_spans_purged(uintptr_t at, size_t bytes, uintptr_t from, uintptr_t end)
{
    if (gb_the.spans.huge + gb_the.spans.small == 0)
        return;
    for (uint32_t span = span_of(at); span_start(span) < at + bytes; span++) {
        uintptr_t start = span_start(span), stop = start + GB_CHUNK_BYTES;
        size_t clean = (stop < end ? stop : end) - (start > from ? start : from);
        bool whole = clean == GB_CHUNK_BYTES;
        if (span_state(span) == GB_SPAN_HUGE && clean >= GB_CHUNK_BYTES / 4 && !whole
            && gb_the.spans.small < SPANS_SMALL_MOST) {
            gb_port_huge_pages(start, GB_CHUNK_BYTES, false);
            span_set(span, GB_SPAN_SMALL);
        } else if (span_state(span) == GB_SPAN_SMALL && whole && gb_the.arena.huge_pages_slow == 0) {
            gb_port_huge_pages(start, GB_CHUNK_BYTES, true);
            span_set(span, GB_SPAN_HUGE);
        }
    }
}
