// The C++ headers with standard containers: vector, map, string, list, unordered_map, and their pmr variants.
#include <glebe/allocator.hpp>
#include <glebe/heap.hpp>
#include <glebe/memory_resource.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            std::fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
            std::exit(1); \
        } \
    } while (0)

namespace {

void report(void *, int invariant, const void *address, const char *what)
{
    std::fprintf(stderr, "broken invariant %d at %p: %s\n", invariant, address, what);
}

bool sound() { return glebe_check(nullptr, 2, report, nullptr) == 0; }

std::uint64_t used()
{
    glebe_stats stats;
    glebe_stats_read(&stats);
    return stats.used_bytes;
}

struct alignas(128) Wide {
    char bytes[128];
};

template <class T> using Vector = std::vector<T, glebe::allocator<T>>;
using String = std::basic_string<char, std::char_traits<char>, glebe::allocator<char>>;

void heaps()
{
    glebe::heap heap;
    CHECK(heap.handle());
    void *blocks[200];
    for (std::size_t i = 0; i < 200; i++) {
        blocks[i] = heap.allocate(i * i, std::size_t{1} << i % 13);
        CHECK((reinterpret_cast<std::uintptr_t>(blocks[i]) & ((std::size_t{1} << i % 13) - 1)) == 0);
    }
    CHECK(heap.bytes() > 0);
    for (std::size_t i = 0; i < 200; i++)
        heap.deallocate(blocks[i], i * i, std::size_t{1} << i % 13);
    CHECK(sound());

    glebe::heap moved(std::move(heap));
    CHECK(!heap.handle() && moved.handle());
    heap = std::move(moved);
    CHECK(heap.handle() && !moved.handle());
    glebe::heap other;
    swap(heap, other);
    heap.reset();
    void *block = heap.allocate(10);
    std::thread([block] { glebe_free(block); }).join();

    glebe::heap small(std::size_t{1} << 20);
    bool thrown = false;
    try {
        for (int i = 0; i < 100000; i++)
            (void)small.allocate(1000);
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    CHECK(thrown && small.bytes() <= std::size_t{1} << 20 && !small.try_allocate(std::size_t{2} << 20));
    CHECK(!small.limit(1) && small.limit(0) && small.try_allocate(std::size_t{2} << 20));

    glebe::heap first(std::size_t{1} << 20);
    first.reset(); // the limit stays, also in a heap that is moved
    glebe::heap kept(std::move(first));
    CHECK(!first.try_allocate(100)); // and not from the heap of this thread, which has no limit
    kept.reset();
    CHECK(kept.try_allocate(std::size_t{512} << 10) && !kept.try_allocate(std::size_t{2} << 20));
    CHECK(kept.limit(std::size_t{4} << 20));
    kept.reset();
    CHECK(kept.try_allocate(std::size_t{2} << 20) && !kept.try_allocate(std::size_t{4} << 20));
    kept.reset(0);
    CHECK(kept.try_allocate(std::size_t{4} << 20));
    glebe::memory_resource resource(std::size_t{1} << 20);
    resource.release();
    CHECK(!resource.heap().try_allocate(std::size_t{2} << 20));
    CHECK(sound());
}

void containers()
{
    glebe::heap heap, second;
    {
        Vector<int> numbers{glebe::allocator<int>(heap)};
        for (int i = 0; i < 100000; i++)
            numbers.push_back(i);
        CHECK(numbers[99999] == 99999 && numbers.get_allocator().heap() == &heap);

        std::map<int, String, std::less<int>, glebe::allocator<std::pair<const int, String>>> map{
            glebe::allocator<int>(heap)};
        for (int i = 0; i < 5000; i++)
            map.emplace(i, String(static_cast<std::size_t>(i % 300), 'x', glebe::allocator<char>(heap)));
        for (int i = 0; i < 5000; i += 2)
            map.erase(i);
        CHECK(map.size() == 2500 && map[4999].size() == 4999 % 300);

        std::unordered_map<int, int, std::hash<int>, std::equal_to<int>,
            glebe::allocator<std::pair<const int, int>>> hash{
            glebe::allocator<int>(heap)};
        for (int i = 0; i < 20000; i++)
            hash[i] = i;
        std::list<int, glebe::allocator<int>> list{glebe::allocator<int>(heap)};
        list.assign(1000, 7);

        Vector<Wide> wide(100, glebe::allocator<Wide>(heap));
        CHECK((reinterpret_cast<std::uintptr_t>(wide.data()) & 127) == 0);

        // copies stay in the heap, moves take their heap along, an assigned copy goes into the target's heap
        Vector<int> copy(numbers);
        CHECK(copy.get_allocator().heap() == &heap && copy == numbers);
        Vector<int> target{glebe::allocator<int>(second)};
        target = numbers;
        CHECK(target.get_allocator().heap() == &second && target == numbers);
        const int *data = copy.data();
        target = std::move(copy);
        CHECK(target.data() == data && target.get_allocator().heap() == &heap);
        Vector<int> elsewhere(10, 1, glebe::allocator<int>(second));
        swap(target, elsewhere);
        CHECK(target.get_allocator().heap() == &second && target.size() == 10);
        CHECK(glebe::allocator<int>(heap) == glebe::allocator<char>(heap)
            && glebe::allocator<int>(heap) != glebe::allocator<int>());

        Vector<std::string> plain(100, std::string(100, 'y')); // the thread's own heap
        std::thread([&plain] { Vector<std::string>().swap(plain); }).join();
        auto shared = std::allocate_shared<Wide>(glebe::allocator<Wide>(heap));
        CHECK((reinterpret_cast<std::uintptr_t>(shared.get()) & 127) == 0);
        bool thrown = false;
        try {
            volatile std::size_t most = SIZE_MAX / 2;
            (void)glebe::allocator<Wide>(heap).allocate(most);
        } catch (const std::bad_alloc &) {
            thrown = true;
        }
        CHECK(thrown);
    }
    CHECK(sound());
}

void resources()
{
    {
        glebe::memory_resource memory;
        std::pmr::vector<std::pmr::string> words(&memory);
        for (int i = 0; i < 3000; i++)
            words.emplace_back(static_cast<std::size_t>(i), 'w');
        std::pmr::map<std::pmr::string, std::pmr::vector<int>> map(&memory);
        for (int i = 0; i < 2000; i++)
            map[std::pmr::string(std::to_string(i), &memory)].assign(static_cast<std::size_t>(i % 50), i);
        CHECK(map.size() == 2000 && words.back().get_allocator().resource() == &memory);

        glebe::memory_resource same(memory.heap()), other;
        CHECK(memory.is_equal(same) && !memory.is_equal(other) && !memory.is_equal(*std::pmr::get_default_resource()));
        std::pmr::vector<int> here(1000, 1, &memory), there(&same);
        there = std::move(here); // equal resources: no copy
        CHECK(there.size() == 1000);
    }
    CHECK(sound());

    // monotonic use: no block is freed by itself, the heap's end frees all at once
    std::uint64_t before = used();
    {
        glebe::memory_resource memory;
        using Map = std::pmr::map<int, std::pmr::string>;
        void *place = memory.allocate(sizeof(Map), alignof(Map));
        auto *map = new (place) Map(&memory);
        for (int i = 0; i < 50000; i++)
            map->emplace(i, std::pmr::string(100, 'z'));
        (void)memory.allocate(std::size_t{10} << 20, 4096);
        (void)memory.allocate(std::size_t{300} << 10, 8);
        CHECK(used() > before + (std::size_t{15} << 20));
        memory.release();
        CHECK(used() < before + (std::size_t{1} << 20));
        (void)memory.allocate(1000, 8);
    }
    CHECK(used() < before + (std::size_t{1} << 20) && sound());
}

} // namespace

int main()
{
    heaps();
    containers();
    resources();
}
