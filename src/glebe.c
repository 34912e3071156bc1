/* glebe in one translation unit: the only file that includes .c files, and the only one to compile. It needs no
 * flags. Lower layers (README.md) come first. Only this file chooses the port. */
#if defined(GB_PORT_FAKE)
#include "port/fake.c"
#elif defined(__linux__)
#include "port/posix.c"
#include "port/linux.c"
#include "port/linux_fault.c"
#include "port/linux_stack.c"
#include "port/linux_process.c"
#if GB_SAFE || GB_LEAKS
#include "port/linux_world.c"
#include "port/linux_copy.c"
#endif
#elif defined(__APPLE__)
#include "port/posix.c"
#include "port/macos.c"
#elif defined(_WIN32)
#include "port/windows.c"
#include "port/windows_profile.c"
#elif defined(__wasm__)
#include "port/wasm.c"
#else
#error "glebe has no port for this host: see docs/porting.md"
#endif

#include "base/size_class.c"

#include "base/state.c"
#include "base/entry.c"
#include "base/report.c"
#include "region/account.c"
#include "base/audit.c"
#if GB_SAFE
#include "base/held.c"
#endif

#if GB_LINEAR
GB_MALLOC_BEGIN
#include "linear/tagged.c"
#include "linear/big.c"
GB_MALLOC_END
#include "heap/secure.c"
#include "heap/address.c"
GB_SHORT_BEGIN
#include "linear/linear.c"
#include "heap/page.c"
#include "linear/single.c"
#include "serve/slow.c"
GB_SHORT_END
#else
#include "base/bounds.c"
#include "base/lock.c"
#include "region/queue.c"
#include "region/arena.c"
#include "region/span.c"
#include "region/extent.c"
#include "region/idle.c"
#include "region/region.c"
#include "heap/zero.c"
#include "heap/address.c"
#include "heap/listed.c"
#include "heap/secure.c"
#include "heap/tags.c"

#include "heap/hole.c"
#include "heap/look.c"
#include "heap/mixed.c"
#include "heap/page.c"
#include "heap/medium.c"
#include "heap/large.c"
#include "heap/huge.c"
#include "heap/warm.c"
#include "heap/remote.c"
#include "heap/thread.c"
#include "heap/common.c"
#include "heap/guard.c"
#include "heap/sample.c"
#include "heap/label.c"

#include "retain/purge.c"
#include "retain/pressure.c"
#include "retain/ask.c"
#include "retain/retain.c"
#include "retain/fork.c"
#include "serve/slow.c"
#include "serve/big.c"
#endif

GB_MALLOC_BEGIN
#include "serve/alloc.c"
#include "serve/free.c"
#if GB_SAFE
#include "serve/safe.c"
#endif
GB_MALLOC_END

#include "api/heaps.c"
#include "api/pool.c"
#include "api/api.c"
#include "api/options.c"

#include "gc/sweep.c"
GB_SHORT_BEGIN
#include "gc/stack.c"
GB_SHORT_END
#include "gc/mark.c"
GB_SHORT_BEGIN
#include "gc/table.c"
#include "gc/finalize.c"
#include "gc/collect.c"
GB_SHORT_END
#if !GB_LINEAR
#include "gc/cache.c"
#include "gc/huge_object.c"
#include "gc/trace.c"
#include "gc/share.c"
#include "gc/team.c"
#include "gc/link.c"
#include "gc/runtime.c"
#endif

#include "debug/stats.c"
#include "debug/text.c"
#include "debug/evidence.c"
#include "debug/profile.c"
#include "debug/snapshot.c"
#include "debug/leaks.c"
#include "debug/check.c"
#if GB_LINEAR
#include "linear/check_region.c"
#else
#include "debug/check_region.c"
#include "debug/shape.c"
#endif
#include "debug/check_gc.c"
#if GB_WORDS
#include "start.c"
#endif
