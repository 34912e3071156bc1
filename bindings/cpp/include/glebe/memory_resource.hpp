// A std::pmr::memory_resource on a heap of its own, or on a borrowed one.
//
//     glebe::memory_resource memory;
//     std::pmr::vector<std::pmr::string> words(&memory);
//
// Unlike std::pmr::monotonic_buffer_resource it reuses freed memory; like that, its destructor frees everything at
// once. A container in it need not be destroyed (if it was constructed in the resource itself, for example): it leaks
// only memory that its members hold elsewhere.
#ifndef GLEBE_MEMORY_RESOURCE_HPP
#define GLEBE_MEMORY_RESOURCE_HPP

#include <glebe/heap.hpp>

#include <memory_resource>
#include <optional>

namespace glebe {

class memory_resource final : public std::pmr::memory_resource {
public:
    memory_resource() : own_(std::in_place), heap_(&*own_) {}
    explicit memory_resource(std::size_t limit_bytes) : own_(std::in_place, limit_bytes), heap_(&*own_) {}
    // `lent` must outlive the resource.
    explicit memory_resource(glebe::heap &lent) noexcept : heap_(&lent) {}
    memory_resource(const memory_resource &) = delete;
    memory_resource &operator=(const memory_resource &) = delete;

    glebe::heap &heap() noexcept { return *heap_; }

    // Frees all blocks at once; the limit stays. No container on the resource may be used or destroyed afterwards.
    void release() { heap_->reset(); }

private:
    void *do_allocate(std::size_t bytes, std::size_t alignment) override { return heap_->allocate(bytes, alignment); }
    void do_deallocate(void *block, std::size_t bytes, std::size_t alignment) override
    {
        heap_->deallocate(block, bytes, alignment);
    }
    // Two resources can free each other's blocks if they have the same heap.
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
    {
        auto *same = dynamic_cast<const memory_resource *>(&other);
        return same && same->heap_ == heap_;
    }

    std::optional<glebe::heap> own_;
    glebe::heap *heap_;
};

} // namespace glebe

#endif
