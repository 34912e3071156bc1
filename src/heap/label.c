/* Labels: what a program calls the work that a thread does. A thread's samples carry its labels.
 *
 *     root <- tenant=a <- route=/x <- main <- serve <- malloc's caller        a site is a stack with its labels
 *
 * In the tree of stacks (sample.c) labels are frames without an address, and the outermost ones. A thread keeps the
 * number of its last label's frame, and its stacks begin there. So a sample, malloc and free cost nothing more, and a
 * reader that knows no labels skips them, as it skips any frame without an address.
 *
 * Each key with its value has one record, and each set of labels one frame. They stay, so they are meant to be few. The
 * sampler's lock guards them. */
#include "heap.h"

#if GB_SAMPLES

gb_label *gb_label_at(uint32_t number)
{
    return gb_record_at(&gb_the.sampler.labels, sizeof(gb_label), number);
}

/* Copies a text that fits, has no control characters, and is not empty; keys have no spaces either. */
static bool label_copy(char *to, size_t room, const char *text, char least)
{
    size_t i = 0;
    for (; text && text[i] && i < room; i++) {
        to[i] = text[i];
        if ((unsigned char)text[i] < (unsigned char)least || text[i] == 127)
            return false;
    }
    if (i == 0 || i == room)
        return false;
    to[i] = 0;
    return true;
}

/* Returns the number of the label's record; 0 if there is no memory. */
static uint32_t label_of(const gb_label *wanted)
{
    gb_sampler *sampler = &gb_the.sampler;
    uintptr_t hash = 0;
    for (const char *c = wanted->key; *c; c++)
        hash = hash * 31 + (unsigned char)*c;
    for (const char *c = wanted->value; *c; c++)
        hash = hash * 31 + (unsigned char)*c;
    uint32_t *head = gb_record_head(sampler->label_heads, GB_SAMPLE_HEADS_LOG2, hash, 0);
    for (uint32_t number = *head; number; number = gb_label_at(number)->next) {
        const gb_label *label = gb_label_at(number);
        if (strcmp(label->key, wanted->key) == 0 && strcmp(label->value, wanted->value) == 0)
            return number;
    }
    uint32_t number = gb_record_new(&sampler->labels, sizeof(gb_label));
    if (number) {
        *gb_label_at(number) = *wanted;
        gb_label_at(number)->next = *head;
        *head = number;
    }
    return number;
}

/* Makes the thread's path of labels anew, with the changed one in its place or at the end. */
static int label_change(const gb_label *label, bool stays)
{
    uint32_t old[GB_LABELS_MOST], count = 0, path = 0, number = 0;
    bool done = !stays;
    for (uint32_t frame = *gb_sample_labels(); frame; frame = gb_frame_at(frame)->caller)
        old[count++] = gb_frame_at(frame)->label;
    if (stays && (number = label_of(label)) == 0)
        return ENOMEM;
    for (uint32_t i = count; i > 0; i--) {
        uint32_t next = old[i - 1];
        if (strcmp(gb_label_at(next)->key, label->key) == 0) {
            next = number;
            done = true;
            if (!stays)
                continue;
        }
        if ((path = gb_frame_of(0, path, next)) == 0)
            return ENOMEM;
    }
    if (!done && count == GB_LABELS_MOST)
        return E2BIG;
    if (!done && (path = gb_frame_of(0, path, number)) == 0)
        return ENOMEM;
    *gb_sample_labels() = path;
    return 0;
}

int gb_label_set(const char *key, const char *value)
{
    gb_sampler *sampler = &gb_the.sampler;
    gb_label label = {.next = 0};
    if (!label_copy(label.key, sizeof label.key, key, '!'))
        return EINVAL;
    if (value && !label_copy(label.value, sizeof label.value, value, ' '))
        return EINVAL;
    if (!value && *gb_sample_labels() == 0)
        return 0;
    gb_lock_take(&sampler->lock);
    int error = gb_sampler_make(sampler) ? label_change(&label, value != NULL) : ENOMEM;
    if (error == ENOMEM)
        *gb_sample_labels() = 0; /* no label rather than one of work that is done */
    gb_lock_drop(&sampler->lock);
    return error;
}

#endif
