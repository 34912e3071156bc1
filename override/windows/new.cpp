// Every operator new and delete for programs of mingw and of zig, in C++. Such a program links its own C++ runtime, and
// only a program that has one takes this member of the archive. When memory runs out, new calls the program's handler
// and then throws std::bad_alloc, as the standard requires.
#include <cstddef>
#include <new>

#include "../../include/glebe.h"

extern "C" void override_delete(void *block); // glebe_free, but reports name operator delete

namespace {

void *block_or_throw(std::size_t bytes, std::size_t alignment)
{
    for (;;) {
        void *block = alignment ? glebe_aligned_alloc(alignment, bytes) : glebe_malloc(bytes);
        if (block)
            return block;
        std::new_handler handler = std::get_new_handler();
        if (!handler)
            throw std::bad_alloc();
        handler();
    }
}

void *block_or_null(std::size_t bytes, std::size_t alignment) noexcept
{
    try {
        return block_or_throw(bytes, alignment);
    } catch (...) {
        return nullptr;
    }
}

} // namespace

using std::align_val_t;
using std::nothrow_t;
using std::size_t;

void *operator new(size_t n) { return block_or_throw(n, 0); }
void *operator new[](size_t n) { return block_or_throw(n, 0); }
void *operator new(size_t n, const nothrow_t &) noexcept { return block_or_null(n, 0); }
void *operator new[](size_t n, const nothrow_t &) noexcept { return block_or_null(n, 0); }
void *operator new(size_t n, align_val_t a) { return block_or_throw(n, size_t(a)); }
void *operator new[](size_t n, align_val_t a) { return block_or_throw(n, size_t(a)); }
void *operator new(size_t n, align_val_t a, const nothrow_t &) noexcept { return block_or_null(n, size_t(a)); }
void *operator new[](size_t n, align_val_t a, const nothrow_t &) noexcept { return block_or_null(n, size_t(a)); }

void operator delete(void *p) noexcept { override_delete(p); }
void operator delete[](void *p) noexcept { override_delete(p); }
void operator delete(void *p, size_t) noexcept { override_delete(p); }
void operator delete[](void *p, size_t) noexcept { override_delete(p); }
void operator delete(void *p, const nothrow_t &) noexcept { override_delete(p); }
void operator delete[](void *p, const nothrow_t &) noexcept { override_delete(p); }
void operator delete(void *p, align_val_t) noexcept { override_delete(p); }
void operator delete[](void *p, align_val_t) noexcept { override_delete(p); }
void operator delete(void *p, size_t, align_val_t) noexcept { override_delete(p); }
void operator delete[](void *p, size_t, align_val_t) noexcept { override_delete(p); }
void operator delete(void *p, align_val_t, const nothrow_t &) noexcept { override_delete(p); }
void operator delete[](void *p, align_val_t, const nothrow_t &) noexcept { override_delete(p); }
