// An allocator for standard containers: on a given heap, or on the calling thread's.
//
//     glebe::heap heap;
//     std::vector<int, glebe::allocator<int>> numbers{glebe::allocator<int>(heap)};
//
// It holds a pointer to the heap, which must outlive the blocks. Two allocators are equal if they have the same heap.
// Moving and swapping containers moves the allocator too, so both stay cheap. A copied container allocates in the same
// heap; the target of a copy assignment stays in its own.
#ifndef GLEBE_ALLOCATOR_HPP
#define GLEBE_ALLOCATOR_HPP

#include <glebe/heap.hpp>

#include <limits>
#include <type_traits>

namespace glebe {

template <class T> class allocator {
public:
    using value_type = T;
    using propagate_on_container_copy_assignment = std::false_type;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap = std::true_type;
    using is_always_equal = std::false_type;

    // The calling thread's heap; any thread may free its blocks.
    allocator() noexcept = default;
    // Not explicit: a heap converts where a container wants an allocator.
    allocator(glebe::heap &heap) noexcept : heap_(&heap) {}
    template <class U> allocator(const allocator<U> &other) noexcept : heap_(other.heap()) {}

    [[nodiscard]] T *allocate(std::size_t count)
    {
        if (count > std::numeric_limits<std::size_t>::max() / sizeof(T))
            throw std::bad_array_new_length();
        std::size_t bytes = count * sizeof(T);
        if (heap_)
            return static_cast<T *>(heap_->allocate(bytes, alignof(T)));
        void *block = alignof(T) <= natural_alignment ? glebe_malloc(bytes) : glebe_aligned_alloc(alignof(T), bytes);
        if (!block)
            throw std::bad_alloc();
        return static_cast<T *>(block);
    }
    void deallocate(T *block, std::size_t count) noexcept
    {
        if (heap_)
            heap_->deallocate(block, count * sizeof(T), alignof(T));
        else
            glebe_free(block);
    }

    glebe::heap *heap() const noexcept { return heap_; }

private:
    glebe::heap *heap_ = nullptr;
};

template <class T, class U> bool operator==(const allocator<T> &a, const allocator<U> &b) noexcept
{
    return a.heap() == b.heap();
}
template <class T, class U> bool operator!=(const allocator<T> &a, const allocator<U> &b) noexcept
{
    return !(a == b);
}

} // namespace glebe

#endif
