/* Guarded blocks (GLEBE_GUARD): a few of the sampler's blocks, each in an OS page of its own, between two without
 * access. A program that writes past an end of such a block, or uses it after it was freed, faults there. Since few
 * blocks are guarded, this costs so little that a program in production can have it; many runs together find what is
 * rare.
 *
 *     | records | none | slot 0  | none | slot 1 | none | ...        in use: accessible; freed: not
 *                           ^^^^        ^^^^
 *                 the block ends where its page does; one of GUARD_TURNS begins there
 *
 * Of a page that has a block, the other bytes are zero, and free() looks whether they still are: so a write past the
 * other end is found, too, though late. A slot that was freed is used again after all that were freed before. If all
 * are in use, no block is guarded until one is freed.
 *
 * The bytes of a small block are those of its class: malloc's slow path knows no others. A longer block is rounded up
 * to 16 bytes, or its alignment.
 *
 * The slots are address space of their own, in no chunk and in no extent. So free() and realloc() get there the way of
 * unknown addresses, and other blocks pay nothing. The sampler's lock guards everything here. The handler of faults
 * reads without it: its thread may hold it. */
#include "heap.h"

#if GB_SAMPLES

enum { GUARD_TURNS = 4 };
enum guard_state { GUARD_UNUSED, GUARD_USED, GUARD_FREED };
enum guard_side { GUARD_BEFORE, GUARD_OWN, GUARD_BEHIND, GUARD_SIDES }; /* three pages, of which two are shared */

typedef struct guard_stack {
    uint32_t count;
    uintptr_t callers[GB_GUARD_FRAMES];
} guard_stack;

struct gb_guard {
    uintptr_t block; /* where the program's bytes begin, and their number */
    size_t bytes;
    _Atomic uint32_t state; /* an enum guard_state */
    _Atomic bool opened[GUARD_SIDES]; /* the page is accessible, since a fault there was counted */
    uint64_t freed_as; /* its place in the order of frees; 0: never freed */
    guard_stack allocated, freed;
};

static GB_TLS uintptr_t guard_code; /* where the access that faulted is in the program's code, while it is reported */

static uintptr_t guard_page(uint32_t slot, enum guard_side side)
{
    return gb_the.guards.base + (2 * (uintptr_t)slot + side) * gb_the.page_bytes;
}

bool gb_guard_place(const void *address)
{
    return (uintptr_t)address - gb_the.guards.base < (2 * (size_t)gb_the.guards.count + 1) * gb_the.page_bytes
        && gb_the.guards.count;
}

/* Returns the slot that an address belongs to. A page between two slots belongs to the one whose block is nearer. */
static gb_guard *guard_slot_of(const void *address)
{
    uintptr_t at = (uintptr_t)address;
    size_t page = (at - gb_the.guards.base) / gb_the.page_bytes, slot = page / 2;
    gb_guard *behind = gb_the.guards.slots + slot;
    if (page % 2 || slot == 0)
        return behind;
    if (slot == gb_the.guards.count || behind->state == GUARD_UNUSED)
        return behind - 1;
    const gb_guard *before = behind - 1;
    bool nearer = before->state != GUARD_UNUSED && at - (before->block + before->bytes) <= behind->block - at;
    return behind - nearer;
}

/* Finds the slot of a block in use that the address is in, or NULL. */
static gb_guard *guard_used(const void *address)
{
    gb_guard *slot = gb_guard_place(address) ? guard_slot_of(address) : NULL;
    bool inside = slot && gb_load(&slot->state) == GUARD_USED && (uintptr_t)address - slot->block < slot->bytes;
    return inside ? slot : NULL;
}

size_t gb_guard_bytes(const void *address, uintptr_t *start)
{
    const gb_guard *slot = guard_used(address);
    *start = slot ? slot->block : 0;
    return slot ? slot->bytes : 0;
}

/* ---- take and give ---- */

static bool guard_fault(uintptr_t address, uintptr_t code, const char *access);

size_t gb_guard_wants(const gb_request *request)
{
    if (request->cls < GB_SMALL_CLASSES)
        return gb_classes[request->cls].bytes;
    size_t step = request->alignment > 16 ? request->alignment : 16, page = gb_the.page_bytes;
    return request->bytes <= page && step <= page ? gb_round_up(request->bytes ? request->bytes : 1, step) : 0;
}

bool gb_guard_room(void)
{
    return gb_load_relaxed(&gb_the.guards.used) < gb_the.guards.count;
}

static void guard_keep(guard_stack *stack, const uintptr_t *callers, uint32_t count)
{
    stack->count = count < GB_GUARD_FRAMES ? count : GB_GUARD_FRAMES;
    memcpy(stack->callers, callers, stack->count * sizeof *callers);
}

void *gb_guard_take(size_t bytes, const uintptr_t *callers, uint32_t count)
{
    gb_guards *guards = &gb_the.guards;
    uint32_t best = guards->count;
    for (uint32_t i = 0; i < guards->count; i++)
        if (guards->slots[i].state != GUARD_USED
            && (best == guards->count || guards->slots[i].freed_as < guards->slots[best].freed_as))
            best = i;
    if (best == guards->count || bytes > gb_the.page_bytes)
        return NULL;
    gb_guard *slot = guards->slots + best;
    uintptr_t page = guard_page(best, GUARD_OWN), size = gb_the.page_bytes;
    if (!gb_port_faults(guard_fault))
        return NULL;
    for (int side = 0; side < GUARD_SIDES; side++) {
        if (slot->opened[side] && !gb_port_guard(guard_page(best, (enum guard_side)side), size, false))
            return NULL;
        slot->opened[side] = false;
    }
    if (!gb_port_guard(page, size, true))
        return NULL;
    slot->block = ++guards->taken % GUARD_TURNS == 0 ? page : page + size - bytes;
    slot->bytes = bytes;
    guard_keep(&slot->allocated, callers, count);
    slot->freed.count = 0;
    gb_store(&slot->state, GUARD_USED);
    gb_store_relaxed(&guards->used, gb_load_relaxed(&guards->used) + 1);
    return (void *)slot->block;
}

/* Reports a block that is about to be freed if the rest of its page was written to. */
static void guard_look(const char *call, const gb_guard *slot, uintptr_t page)
{
    uintptr_t end = slot->block + slot->bytes;
    for (uintptr_t at = page; at < page + gb_the.page_bytes; at++) {
        if (at == slot->block)
            at = end;
        if (at == page + gb_the.page_bytes || *(const char *)at == 0)
            continue;
        gb_report(call, (void *)slot->block, "the block of %zu bytes here was written %s", slot->bytes,
            at < end ? "before its start" : "past its end");
        return;
    }
}

void gb_guard_give(const char *call, void *block)
{
    guard_stack stack;
    gb_guard *slot = guard_slot_of(block);
    uintptr_t page = guard_page((uint32_t)(slot - gb_the.guards.slots), GUARD_OWN);
    bool ours = guard_used(block) == slot && slot->block == (uintptr_t)block;
    stack.count = gb_port_stack(stack.callers, GB_GUARD_FRAMES);
    if (ours) {
        guard_look(call, slot, page);
        if (gb_load_relaxed(&gb_the.sampler.heap))
            gb_sample_drop(block);
    }
    gb_lock_take(&gb_the.sampler.lock);
    bool freed = ours && gb_load(&slot->state) == GUARD_USED && slot->block == (uintptr_t)block;
    if (freed) {
        slot->freed = stack;
        slot->freed_as = ++gb_the.guards.freed;
        gb_store(&slot->state, GUARD_FREED);
        slot->opened[GUARD_OWN] = !gb_port_guard(page, gb_the.page_bytes, false);
        gb_store_relaxed(&gb_the.guards.used, gb_load_relaxed(&gb_the.guards.used) - 1);
        gb_port_faults(guard_fault);
    }
    gb_lock_drop(&gb_the.sampler.lock);
    if (!freed)
        gb_report_address(call, block);
}

/* ---- reports ---- */

void gb_guard_report(const char *call, const void *address, const char *twice)
{
    const gb_guard *slot = guard_slot_of(address);
    uintptr_t at = (uintptr_t)address;
    if (slot->state == GUARD_UNUSED)
        gb_report(call, address, "address is between guarded blocks, where none was given out");
    else if (at == slot->block && slot->state == GUARD_FREED)
        gb_report(call, address, "%sthe block of %zu bytes here is free already", twice, slot->bytes);
    else if (at - slot->block < slot->bytes)
        gb_report(call, address, "address is %zu bytes inside a block of %zu bytes that starts at %p",
            at - slot->block, slot->bytes, (void *)slot->block);
    else
        gb_report(call, address, "address is beside a guarded block of %zu bytes that starts at %p", slot->bytes,
            (void *)slot->block);
}

/* Notes that the page is accessible since a fault. Any of the slots that it belongs to may be taken first. */
static void guard_opened(uintptr_t page)
{
    for (uint32_t i = 0; i < gb_the.guards.count; i++)
        for (int side = 0; side < GUARD_SIDES; side++)
            if (guard_page(i, (enum guard_side)side) == page)
                gb_the.guards.slots[i].opened[side] = true;
}

/* Called by the handler of faults. Returns false if the address is not ours; else the access is repeated: if misuse is
 * only counted, it finds the page accessible then. */
static bool guard_fault(uintptr_t address, uintptr_t code, const char *access)
{
    if (!gb_guard_place((const void *)address))
        return false;
    gb_guard *slot = guard_slot_of((const void *)address);
    uintptr_t start = slot->block, end = start + slot->bytes, page = gb_round_down(address, gb_the.page_bytes);
    uint32_t state = gb_load(&slot->state);
    const char *freed = state == GUARD_FREED ? ", and freed" : "";
    if (state == GUARD_USED && address >= start && address < end)
        return true; /* another thread was given the slot meanwhile */
    guard_code = code;
    if (state == GUARD_UNUSED)
        gb_report("access", (void *)address, "%s between guarded blocks, where none was given out", access);
    else if (address >= end)
        gb_report("access", (void *)address, "%s past the end of a block: at offset %zu of %zu bytes%s", access,
            address - start, slot->bytes, freed);
    else if (address < start)
        gb_report("access", (void *)address, "%s before the start of a block: %zu bytes before %zu bytes%s", access,
            start - address, slot->bytes, freed);
    else
        gb_report("access", (void *)address, "%s after free: at offset %zu of a block of %zu bytes", access,
            address - start, slot->bytes);
    guard_code = 0;
    if (!gb_port_guard(page, gb_the.page_bytes, true))
        return false;
    guard_opened(page);
    return true;
}

bool gb_guard_seen(const void *address, gb_guard_sight *sight)
{
    if (!gb_guard_place(address))
        return false;
    const gb_guard *slot = guard_slot_of(address);
    sight->code = guard_code;
    sight->start = slot->block;
    sight->bytes = slot->state == GUARD_UNUSED ? 0 : slot->bytes;
    sight->freed = slot->state == GUARD_FREED;
    sight->allocators = slot->allocated.callers;
    sight->allocators_count = slot->allocated.count;
    sight->freers = slot->freed.callers;
    sight->freers_count = slot->freed.count;
    return true;
}

/* ---- start ---- */

bool gb_guard_open(void)
{
    gb_guards *guards = &gb_the.guards;
    if (guards->count)
        return true;
    size_t page = gb_the.page_bytes = gb_port_page_bytes();
    uint32_t most = (uint32_t)(GB_GUARD_MOST_BYTES / page), count = most < GB_GUARD_SLOTS ? most : GB_GUARD_SLOTS;
    size_t records = gb_round_up(count * sizeof(gb_guard), page);
    uintptr_t at = gb_port_guards(records + (2 * (size_t)count + 1) * page);
    if (!at || !gb_port_guard(at, records, true) || !gb_port_faults(guard_fault))
        return false;
    guards->slots = (gb_guard *)at;
    guards->base = at + records;
    guards->count = count;
    return true;
}

#endif
