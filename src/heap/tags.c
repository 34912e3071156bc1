/* Memory tags, in the secure build on 64-bit Arm processors that have them (MTE). Each 16 bytes of memory have a tag of
 * four bits, and so has an address, in bits that the processor otherwise ignores. At each access it compares the two.
 *
 *     malloc   draws a tag for the block, never 0, nor that of the bytes before and behind
 *
 *         tags      3   3   3 | 9   9   0 | 5   5   5                 address 0x0900...: leads to the middle block only
 *         bytes    a block    | a block   | a block                   its last 16 bytes are no program's: 0
 *
 *     free     looks whether address and block have the same tag, and sets the block's to 0
 *
 * So an access past either end of a block is a fault, and so is one to a block that was freed. After its memory was
 * handed out again, an address from before has the new block's tag in one of 15 cases at most.
 *
 * 1. The core knows only addresses without a tag. The public functions put tags on and take them off.
 * 2. Tags are not compared while a thread is in the core (GB_ENTRY), and free blocks have the tag 0. So the core reads
 *    tails of blocks in use, and the threads of the core read free blocks.
 * 3. Only small and medium blocks of threads' heaps are tagged. A larger block ends at a guard, and tags on memory that
 *    the program does not touch would make it resident. A heap of the program's may be destroyed with its blocks. */
#include "tags.h"

#include "../base/entry.h"

#if GB_TAGS

enum { TAG_BYTES = 16 };

/* ---- the processor. Instructions by number: compilers for older processors refuse their names. ---- */

static uint32_t tag_of(uintptr_t address)
{
    return (uint32_t)(address >> GB_TAG_SHIFT & 15);
}

/* Returns the tag of the memory at an address. */
static uint32_t tag_load(uintptr_t at)
{
    register uintptr_t x0 __asm__("x0") = at;
    __asm__ volatile(".inst 0xd9600000 // ldg x0, [x0]" : "+r"(x0) : : "memory");
    return tag_of(x0);
}

/* Gives the memory the tag of its address. */
static void tag_store(uintptr_t tagged, size_t bytes)
{
    for (register uintptr_t x0 __asm__("x0") = tagged; x0 < tagged + bytes; x0 += TAG_BYTES)
        __asm__ volatile(".inst 0xd9200800 // stg x0, [x0]" : : "r"(x0) : "memory");
}

/* Returns the address with a tag that is not in the set of bits. */
static uintptr_t tag_draw(uintptr_t at, uintptr_t without)
{
    register uintptr_t x0 __asm__("x0") = at;
    register uintptr_t x1 __asm__("x1") = without;
    __asm__ volatile(".inst 0x9ac11000 // irg x0, x0, x1" : "+r"(x0) : "r"(x1));
    return x0;
}

/* ---- blocks ---- */

/* Returns the page of small or medium blocks that an address without a tag is in, if they have tags; else NULL. */
static gb_page *tags_page(uintptr_t at)
{
    gb_page *entry = gb_page_entry((const void *)at), *page = entry ? gb_page_head(entry) : NULL;
    if (!page || (page->kind != GB_SMALL && page->kind != GB_MEDIUM))
        return NULL;
    return gb_load_relaxed(&gb_page_heap(page)->kind) == GB_HEAP_OWNED ? NULL : page;
}

/* Returns how many bytes from the block's start have its tag. */
static size_t tags_bytes(const gb_page *page, const void *block)
{
    return gb_round_up(gb_secure_bytes(page, block), TAG_BYTES);
}

void *gb_tags_draw(void *block)
{
    uintptr_t at = (uintptr_t)block;
    const gb_page *page = tags_page(at);
    if (!page)
        return block;
    size_t bytes = tags_bytes(page, block);
    uintptr_t start = gb_page_start(page), end = start + gb_page_bytes(page), without = 1;
    if (at > start)
        without |= (uintptr_t)1 << tag_load(at - TAG_BYTES);
    if (at + bytes < end)
        without |= (uintptr_t)1 << tag_load(at + bytes);
    uintptr_t tagged = tag_draw(at, without);
    tag_store(tagged, bytes);
    return (void *)tagged;
}

/* A block that is free has the tag 0: what frees it again says so. */
void *gb_tags_check(const char *call, const void *block)
{
    uintptr_t address = (uintptr_t)block, at = gb_tag_off(address);
    if (!tags_page(at))
        return (void *)address;
    uint32_t has = tag_load(at);
    if (has == tag_of(address) || has == 0)
        return (void *)at;
    gb_report(call, block, "the block of this address, with the tag %u, was freed: the one here now has the tag %u",
        tag_of(address), has);
    return NULL;
}

void *gb_tags_take(const char *call, void *block)
{
    void *plain = gb_tags_check(call, block);
    const gb_page *page = plain ? tags_page((uintptr_t)plain) : NULL;
    if (page && gb_block_in_use(page, plain))
        tag_store((uintptr_t)plain, tags_bytes(page, plain));
    return plain;
}

void gb_tags_restore(void *tagged)
{
    uintptr_t at = gb_tag_off((uintptr_t)tagged);
    const gb_page *page = tags_page(at);
    if (page)
        tag_store((uintptr_t)tagged, tags_bytes(page, (void *)at));
}

/* ---- faults ---- */

static void tags_report(const gb_page *page, uintptr_t address)
{
    gb_place place = gb_page_locate(page, address - gb_page_start(page));
    const void *block = (const void *)(address - place.inside), *at = (const void *)address;
    size_t bytes = place.carved ? gb_secure_bytes(page, block) : 0;
    if (!place.carved || !gb_block_in_use(page, block))
        gb_report("access", at, "access after free, or past a block's end: a free block is here");
    else if (place.inside >= tags_bytes(page, block))
        gb_report("access", at, "access past the end of a block: at offset %u of %zu bytes", place.inside, bytes);
    else
        gb_report("access", at,
            "access with an address of another block, or of one that was freed: at offset %u of the block of %zu bytes "
            "here",
            place.inside, bytes);
}

/* Called by the handler of faults. If misuse is only counted the thread goes on, and its tags are compared no more. */
static bool tags_fault(uintptr_t address, uintptr_t code, const char *access)
{
    GB_ENTRY;
    (void)code;
    address = gb_tag_off(address);
    const gb_page *page = strcmp(access, GB_TAG_FAULT) == 0 ? tags_page(address) : NULL;
    if (!page)
        return false;
    tags_report(page, address);
    return gb_port_tags(false);
}

void gb_tags_begin(void)
{
    gb_the.tags = !gb_the.options.no_tags && gb_port_tags(true) && gb_port_faults(tags_fault);
}

#endif
