/* glebe in one translation unit: the only file that includes .c files, and the only one to compile. No flags are
 * needed. The order is that of the layers in README.md. The host is picked here and nowhere else. */
#if defined(GB_PORT_FAKE)
#include "port/fake.c"
#elif defined(__linux__)
#include "port/posix.c"
#include "port/linux.c"
#elif defined(__APPLE__)
#include "port/posix.c"
#include "port/macos.c"
#elif defined(_WIN32)
#include "port/windows.c"
#elif defined(__wasm__)
#include "port/wasm.c"
#else
#error "glebe has no port for this host: see docs/porting.md"
#endif

#include "size_class.c"

#include "entry.c"
#include "report.c"
#include "account.c"
#include "audit.c"

#if GB_LINEAR
GB_MALLOC_BEGIN
#include "tagged.c"
GB_MALLOC_END
#include "address.c"
#include "secure.c"
GB_SHORT_BEGIN
#include "linear.c"
#include "page.c"
#include "single.c"
#include "slow.c"
GB_SHORT_END
#else
#include "lock.c"
#include "queue.c"
#include "arena.c"
#include "span.c"
#include "extent.c"
#include "region.c"
#include "address.c"
#include "secure.c"

#include "hole.c"
#include "mixed.c"
#include "page.c"
#include "medium.c"
#include "large.c"
#include "huge.c"
#include "remote.c"
#include "thread.c"

#include "idle.c"
#include "purge.c"
#include "pressure.c"
#include "retain.c"
#include "fork.c"
#include "slow.c"
#endif

GB_MALLOC_BEGIN
#include "alloc.c"
#include "free.c"
GB_MALLOC_END

#include "heap.c"
#include "pool.c"
#include "api.c"

#include "sweep.c"
#include "huge_object.c"
GB_SHORT_BEGIN
#include "stack.c"
GB_SHORT_END
#include "mark.c"
GB_SHORT_BEGIN
#include "table.c"
#include "finalize.c"
#include "collect.c"
GB_SHORT_END

#include "options.c"
#include "stats.c"
#include "check.c"
#include "check_gc.c"
#if GB_WORDS
#include "start.c"
#endif
