// glebe for C++17: a heap as an object.
//
//     glebe::heap heap;                        // or heap(64 << 20), a limit
//     void *p = heap.allocate(100);            // throws std::bad_alloc if memory or the limit is exhausted
//     heap.deallocate(p, 100);                 // the cheapest free, since the size is known
//                                              // ... destroying the heap frees all blocks left in it, at once
//
// One thread at a time may use a heap, as glebe.h says; any thread may free its blocks with `glebe_free`. Destroying a
// heap runs no destructors, and nothing in it may be touched afterwards. A heap that was moved from allocates nothing
// until another is assigned to it. Header only; link with glebe.
#ifndef GLEBE_HEAP_HPP
#define GLEBE_HEAP_HPP

#if __cplusplus < 201703L && (!defined(_MSVC_LANG) || _MSVC_LANG < 201703L)
#error "glebe's C++ headers need C++17: compile with -std=c++17 or later"
#endif

#include <glebe.h>

#include <cstddef>
#include <new>
#include <utility>

namespace glebe {

// The alignment of every block, without a request for more.
inline constexpr std::size_t natural_alignment = 16;

class heap {
public:
    // `limit_bytes` 0 is no limit.
    explicit heap(std::size_t limit_bytes = 0) : handle_(glebe_heap_create(limit_bytes)), limit_bytes_(limit_bytes)
    {
        if (!handle_)
            throw std::bad_alloc();
    }
    heap(heap &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)), limit_bytes_(other.limit_bytes_) {}
    heap &operator=(heap &&other) noexcept
    {
        heap(std::move(other)).swap(*this);
        return *this;
    }
    heap(const heap &) = delete;
    heap &operator=(const heap &) = delete;
    ~heap() { glebe_heap_destroy(handle_); }

    void swap(heap &other) noexcept
    {
        std::swap(handle_, other.handle_);
        std::swap(limit_bytes_, other.limit_bytes_);
    }
    friend void swap(heap &a, heap &b) noexcept { a.swap(b); }

    // `alignment` must be a power of two.
    [[nodiscard]] void *allocate(std::size_t bytes, std::size_t alignment = natural_alignment)
    {
        void *block = try_allocate(bytes, alignment);
        if (!block)
            throw std::bad_alloc();
        return block;
    }
    [[nodiscard]] void *try_allocate(std::size_t bytes, std::size_t alignment = natural_alignment) noexcept
    {
        if (!handle_) // glebe.h takes NULL for the thread's own heap
            return nullptr;
        return alignment <= natural_alignment ? glebe_heap_malloc(handle_, bytes)
                                              : glebe_heap_aligned_alloc(handle_, alignment, bytes);
    }
    // `bytes` and `alignment` as in the allocation. (A block of wider alignment may be larger than `bytes` says.)
    void deallocate(void *block, std::size_t bytes, std::size_t alignment = natural_alignment) noexcept
    {
        if (alignment <= natural_alignment)
            glebe_heap_free_sized(handle_, block, bytes);
        else
            glebe_heap_free(handle_, block);
    }
    void deallocate(void *block) noexcept { glebe_heap_free(handle_, block); }

    // Frees all blocks at once and starts an empty heap, with the same limit or another.
    void reset() { reset(limit_bytes_); }
    void reset(std::size_t limit_bytes) { *this = heap(limit_bytes); }

    // false if the heap holds more already.
    bool limit(std::size_t limit_bytes) noexcept
    {
        if (glebe_heap_limit(handle_, limit_bytes) != 0)
            return false;
        limit_bytes_ = limit_bytes;
        return true;
    }
    // Address space that the heap holds in pages and blocks.
    std::size_t bytes() const noexcept { return glebe_heap_bytes(handle_); }

    // For the functions of glebe.h; null after the heap was moved from.
    glebe_heap *handle() const noexcept { return handle_; }

private:
    glebe_heap *handle_;
    std::size_t limit_bytes_;
};

} // namespace glebe

#endif
