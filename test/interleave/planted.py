"""Bugs to plant: the positive control. Each is a small slip in a protocol that some case must find.

An edit is (file, old text, new text). The old text must occur in the file exactly once: if the source has changed,
`subject` fails, and the test does not get weaker silently. By default old and new are statements. "expression": they
are expressions. "always": the new text replaces the old whether or not the bug is on, and changes nothing by itself;
for a variable that another edit uses.
"""

SEND = "GB_XFREE_QUEUED | (whole ? GB_XFREE_WHOLE : 0)"
SEND_COUNT = "(uint64_t)(GB_XFREE_COUNT(before) + count) << GB_XFREE_COUNT_SHIFT"
SEND_LAST = "head ? GB_XFREE_LAST(before) : (uint32_t)((uintptr_t)last - start)"
SEND_CAS = "gb_cas(&page->xfree, &before, after)"
PUSH = "if ((before & GB_XFREE_QUEUED) == 0)\n        inbox_push(page);"
TAKE = "gb_cas(&page->xfree, &taken, 0)"
TAKE_NOTICES = "gb_cas(&page->notify, &taken, taken & GB_NOTIFY_PURGED ? taken & ~GB_NOTIFY_QUEUED : 0)"
STEAL = "small ? !gb_cas(&page->xfree, &idle, GB_XFREE_QUEUED) : !gb_cas(&page->notify, &quiet, GB_NOTIFY_QUEUED)"
CLAIM = "gb_and(&page->bits, ~((uint32_t)1 << index)) & (uint32_t)1 << index"
LOCK = "atomic_compare_exchange_strong_explicit(&lock->word, &free, 1, memory_order_acquire, memory_order_relaxed)"
SET = "gb_or(&page->bits, (uint32_t)1 << index);"


ENTERED = "&gb_the.common[i].lock"
ENTER = f"i < GB_COMMON_HEAPS - 1 && !gb_lock_try({ENTERED})"
COMMON_TAKE = "front ? gb_hand_out(heap, cls, front) : source(heap, request)"
TICK_ENTERS = "!gb_load_relaxed(&common->heap) || !gb_lock_try(&common->lock)"
CLAIM_SMALL = "gb_cas(&page->xfree, &found, then)"
CLAIM_MEDIUM = "gb_cas(&page->notify, &found, found | GB_NOTIFY_PURGED)"


def swap_in_two(word, value, bits):
    return f"__extension__({{ uint{bits}_t found = gb_load(&{word}); gb_store(&{word}, {value}); found; }})"


BUGS = [
    # ---- remote free ----
    dict(name="the splice is a load and a store", case="free-two", expression=True,
         edits=[("remote.c", SEND_CAS, "(gb_store(&page->xfree, after), true)")]),
    dict(name="the splice releases nothing", case="free-two", expression=True,
         edits=[("remote.c", SEND_CAS, "atomic_compare_exchange_weak_explicit(&page->xfree, &before, after, "
                 "memory_order_relaxed, memory_order_relaxed)")]),
    dict(name="the splice forgets what was counted", case="free-two", expression=True,
         edits=[("remote.c", SEND_COUNT, "(uint64_t)count << GB_XFREE_COUNT_SHIFT")]),
    dict(name="the chain ends where the latest of its parts does", case="free-two", expression=True,
         edits=[("remote.c", SEND_LAST, SEND_LAST.replace("head ?", "!count ?"))]),
    dict(name="the chain is taken by a load and a store", case="free-again", expression=True,
         edits=[("remote.c", TAKE, "(gb_store(&page->xfree, 0), true)")]),
    dict(name="the chain is taken and QUEUED stays", case="free-again", expression=True,
         edits=[("remote.c", TAKE, "gb_cas(&page->xfree, &taken, GB_XFREE_QUEUED)")]),
    dict(name="pages of the program's heaps use the slots", case="destroy", edits=[
        ("remote.c", "if (from->number.n == 0 || ",
         "if (planted == {n} ? from->number.n == 0 : from->number.n == 0 || ", "always")]),
    # ---- inbox ----
    dict(name="every free pushes its page", case="free-two", edits=[("remote.c", PUSH, "inbox_push(page);")]),
    dict(name="QUEUED is set after the push", case="free-two", edits=[
        ("remote.c", SEND, SEND.replace("GB_XFREE_QUEUED", "(before & GB_XFREE_QUEUED)"), "expression"),
        ("remote.c", PUSH,
         "if ((before & GB_XFREE_QUEUED) == 0) { inbox_push(page); gb_or(&page->xfree, GB_XFREE_QUEUED); }")]),
    dict(name="the push is a load and a store", case="inbox-two", expression=True,
         edits=[("remote.c", "gb_cas(&heap->inbox, &first, number)", "(gb_store(&heap->inbox, number), true)")]),
    dict(name="inbox_next is read after the exchange", case="free-again",
         edits=[("remote.c", "heap->inbox_taken = page->inbox_next;\n        gb_page_accept(heap, page);",
                 "gb_page_accept(heap, page); heap->inbox_taken = page->inbox_next;")]),
    dict(name="the inbox is emptied by a load and a store", case="inbox-two", expression=True,
         edits=[("remote.c", "gb_swap(&heap->inbox, 0)", swap_in_two("heap->inbox", "0", 32))]),
    # ---- abandoned heaps ----
    dict(name="a page is stolen whether or not it is queued", case="rob", expression=True,
         edits=[("remote.c", STEAL, "false")]),
    dict(name="a page is stolen after a look, without a claim", case="rob", expression=True,
         edits=[("remote.c", STEAL, "gb_load(&page->xfree) != 0")]),
    dict(name="a medium page is stolen without a claim", case="rob-medium", expression=True,
         edits=[("remote.c", STEAL,
                 "small ? !gb_cas(&page->xfree, &idle, GB_XFREE_QUEUED) : gb_load(&page->notify) != 0")]),
    dict(name="the claim is dropped before the page has its new heap", case="rob", edits=[
        ("remote.c", "gb_store_relaxed(&page->heap, to->number.n);", ";"),
        ("thread.c", "gb_page_accept(heap, page);", "gb_page_accept(heap, page);"
         " gb_store_relaxed(&page->heap, heap->number.n);")]),
    dict(name="the claim is never dropped", case="rob", edits=[("thread.c", "gb_page_accept(heap, page);", ";")]),
    dict(name="an abandoned heap is chosen before the lock is held", case="adopt-two", edits=[
        ("thread.c", "if (!gb_load_relaxed(&gb_the.abandoned.first))\n        return NULL;",
         "gb_heap_id early = abandoned_first();\n    if (!early.n)\n        return NULL;", "always"),
        ("thread.c", "glebe_heap *heap = number.n ? gb_heap_at(number) : NULL;",
         "if (planted == {n})\n        number = early;\n    glebe_heap *heap = number.n ? gb_heap_at(number) : NULL;",
         "always")]),
    dict(name="a heap is parked before it is drained", case="rob-exit", edits=[
        ("thread.c", "gb_remote_flush(heap);\n    gb_inbox_drain(heap);\n    gb_fronts_flush(heap);", ";"),
        ("thread.c", "glebe_live.stats.heaps_abandoned++;\n    gb_lock_drop(&gb_the.abandoned.lock);",
         "glebe_live.stats.heaps_abandoned++; gb_lock_drop(&gb_the.abandoned.lock); gb_remote_flush(heap); "
         "gb_inbox_drain(heap);"
         " gb_fronts_flush(heap);")]),
    dict(name="abandoned heaps are reclaimed without their lock", case="rob-two", expression=True,
         edits=[("thread.c", "!wants || !gb_lock_try(&gb_the.abandoned.lock)", 
                 "!wants || (gb_lock_try(&gb_the.abandoned.lock), false)")]),
    # ---- earlier mistakes ----
    dict(name="a heap's kind is read by others and not atomic", case="exit-both", expression=True,
         edits=[("remote.c", "gb_load_relaxed(&gb_page_heap(page)->kind)",
                 "*(uint32_t *)&gb_page_heap(page)->kind")]),
    dict(name="a fresh page's holes are cleared while the purger looks", case="collect",
         edits=[("page.c", "page->cls = (uint8_t)cls;", "page->cls = (uint8_t)cls; page->holes = page->punched = 0;")]),
    dict(name="a statistic is read without the lock", case="rob-trim",
         edits=[("thread.c", "given += before > after ? before - after : 0;",
                 "given += glebe_live.stats.used_bytes && before > after ? before - after : 0;")]),
    # ---- medium ----
    dict(name="a block is claimed by a load and a store", case="medium", expression=True,
         edits=[("medium.c", CLAIM, "__extension__({ uint32_t found = gb_load(&page->bits), bit = (uint32_t)1 << index;"
                 " gb_store(&page->bits, found & ~bit); found & bit; })")]),
    dict(name="a block is claimed that the purger holds", case="medium", expression=True,
         edits=[("medium.c", CLAIM, "(gb_and(&page->bits, ~((uint32_t)1 << index)), true)")]),
    dict(name="a block is freed by a load and a store", case="medium-two",
         edits=[("medium.c", SET, "gb_store(&page->bits, gb_load(&page->bits) | (uint32_t)1 << index);")]),
    dict(name="a block is counted before it is free", case="release", edits=[
        ("medium.c", SET, "if (heap == self) gb_or(&page->bits, (uint32_t)1 << index);"),
        ("medium.c", "gb_remote_notify(page);", "gb_remote_notify(page); gb_or(&page->bits, (uint32_t)1 << index);")]),
    dict(name="the purger looks and does not claim", case="zero", expression=True,
         edits=[("purge.c", "gb_swap(&page->bits, 0)", "gb_load(&page->bits)")]),
    dict(name="the purger returns blocks by a store", case="medium",
         edits=[("purge.c", "gb_or(&page->bits, claimed);", "gb_store(&page->bits, claimed);")]),
    dict(name="the purger releases nothing", case="zero", edits=[
        ("purge.c", "gb_and(&page->dirty, ~run);",
         "atomic_fetch_and_explicit(&page->dirty, ~run, memory_order_relaxed);"),
        ("purge.c", "gb_and(&page->idle, ~run);",
         "atomic_fetch_and_explicit(&page->idle, ~run, memory_order_relaxed);"),
        ("purge.c", "gb_or(&page->bits, claimed);",
         "atomic_fetch_or_explicit(&page->bits, claimed, memory_order_relaxed);")]),
    dict(name="a notice is a load and a store", case="notify", expression=True,
         edits=[("remote.c", "gb_cas(&page->notify, &before, (before + 1) | GB_NOTIFY_QUEUED)",
                 "(gb_store(&page->notify, (before + 1) | GB_NOTIFY_QUEUED), true)")]),
    dict(name="notices are taken by a load and a store", case="notify", expression=True,
         edits=[("remote.c", TAKE_NOTICES, "(gb_store(&page->notify, 0), true)")]),
    dict(name="a page whose free blocks the purger holds is put among the full ones", case="nearly-claimed",
         expression=True, edits=[("medium.c", "page->out < page->cap", "page->out == 0")]),
    # ---- pages that the purger takes whole ----
    dict(name="a whole page is taken by a load and a store", case="asleep", expression=True,
         edits=[("remote.c", CLAIM_SMALL, "(gb_store(&page->xfree, then), true)")]),
    dict(name="a whole medium page is taken by a load and a store", case="asleep-medium", expression=True,
         edits=[("remote.c", CLAIM_MEDIUM, "(gb_store(&page->notify, found | GB_NOTIFY_PURGED), true)")]),
    dict(name="the owner reads a chain that the purger took", case="asleep", expression=True,
         edits=[("remote.c", "GB_LIKELY((taken & GB_XFREE_PURGED) == 0)", "true")]),
    dict(name="the owner takes blocks back that the purger took", case="asleep-medium", expression=True,
         edits=[("remote.c", "GB_LIKELY((taken & GB_NOTIFY_PURGED) == 0)", "true")]),
    dict(name="a page is given away before its last free was counted", case="asleep-medium", expression=True,
         edits=[("remote.c", "count == (uint32_t)page->out", "true")]),
    dict(name="a page is taken before its last block was returned", case="asleep", expression=True,
         edits=[("remote.c", "GB_XFREE_COUNT(before) + count == all", "GB_XFREE_COUNT(before) + count + 1 >= all")]),
    dict(name="the owner's refill waits for a page that the purger took", case="asleep-current", expression=True,
         edits=[("medium.c", "!gb_page_purged(page)", "true")]),
    # ---- common heaps ----
    dict(name="a thread enters a common heap that another is in", case="common", expression=True,
         edits=[("common.c", ENTER, f"i < GB_COMMON_HEAPS - 1 && (gb_lock_try({ENTERED}), false)")]),
    dict(name="a thread leaves a common heap before it takes the block", case="common", edits=[
        ("slow.c", COMMON_TAKE, f"(gb_common_leave(common), {COMMON_TAKE})", "expression"),
        ("slow.c", "gb_common_leave(common);", ";")]),
    dict(name="a common heap is made before its lock is held", case="common-first", edits=[
        ("common.c", "uint32_t i = 0;\n",
         "uint32_t i = 0; if (planted == {n}) common_make(&gb_the.common[0]);\n", "always")]),
    dict(name="a tick empties a common heap that a thread is in", case="common-rest", expression=True,
         edits=[("common.c", TICK_ENTERS, "!gb_load_relaxed(&common->heap) || (gb_lock_try(&common->lock), false)")]),
    dict(name="a tick looks at a common heap before its lock is held", case="common-ticks", edits=[
        ("common.c", TICK_ENTERS, "!gb_load_relaxed(&common->heap) || (silent && !gb_common_heap(common)->rests && "
         "gb_ms_since(now, gb_common_heap(common)->tick_ms) < gb_the.options.purge_ms) || !gb_lock_try(&common->lock)",
         "expression")]),
    dict(name="fork takes the common heaps' locks last", case="common-fork", edits=[
        ("common.c", "commons_hold(true);", ";"),
        ("common.c", "gb_lock_take(&gb_the.lock);", "gb_lock_take(&gb_the.lock); commons_hold(true);")]),
    dict(name="fork does not wait for common heaps", case="common-child", edits=[
        ("common.c", "commons_hold(true);", ";"), ("common.c", "commons_hold(false);", ";")]),
    # ---- work that markers share ----
    dict(name="a marker looks where it sleeps after it dropped the lock", case="share", edits=[
        ("share.c", "gb_port_wait(&share->turn, turn, UINT32_MAX);",
         "if (planted == {n}) turn = gb_load_relaxed(&share->turn); gb_port_wait(&share->turn, turn, UINT32_MAX);",
         "always")]),
    dict(name="the end of marking wakes no marker", case="share", expression=True,
         edits=[("share.c", "share->open || share->markers == 1", "share->markers == 1")]),
    dict(name="marking starts while a marker has not left the last one", case="share-again", expression=True,
         edits=[("share.c", "share->markers != 0", "false")]),
    dict(name="a marker joins without being counted", case="share",
         edits=[("share.c", "share->markers += open;", ";")]),
    # ---- lock, background ----
    dict(name="the lock is dropped and no thread woken", case="lock", expression=True,
         edits=[("lock.c", "gb_swap(&lock->word, 0) == 2", "(gb_store(&lock->word, 0), false)")]),
    dict(name="the lock takes nothing in", case="lock", expression=True,
         edits=[("lock.c", LOCK, LOCK.replace("acquire", "relaxed"))]),
    dict(name="the background thread sleeps without a last look", case="background", expression=True,
         edits=[("retain.c", "gb_purge_wait(gb_port_now_ms()) == UINT32_MAX", "true")]),
]
