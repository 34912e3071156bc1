// Hundreds of threads whose thread locals allocate and free when they end; C++ maps and strings; exceptions when memory
// is exhausted.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <windows.h>

#include "glebe.h"

namespace {

struct late {
    std::string text;
    std::vector<std::string> more;
    ~late()
    {
        more.clear();
        for (int i = 0; i < 50; i++)
            more.emplace_back(static_cast<size_t>(i) * 10, 'x');
        delete new std::string(text + text);
    }
};
#ifdef __clang__ // gcc's runtime frees the memory of thread locals before it destroys them
thread_local late ends_late;
#endif

void WINAPI fiber_local_ends(void *held)
{
    delete static_cast<late *>(held);
}
const DWORD slot = FlsAlloc(fiber_local_ends);
std::atomic<long> sum{0};

void work(unsigned seed)
{
    auto *held = new late;
    held->text.assign(seed % 777 + 1, 'f');
    FlsSetValue(slot, held);
#ifdef __clang__
    ends_late.text.assign(seed % 1000 + 1, 'a');
#endif
    std::unordered_map<unsigned, std::string> map;
    for (unsigned i = 0; i < 2000; i++) {
        seed = seed * 1103515245 + 12345;
        map[seed % 500] = std::string(seed >> 8 & 255, 'b');
        if (i % 3 == 0)
            map.erase(seed % 311);
    }
    sum += static_cast<long>(map.size());
}

} // namespace

int main()
{
    for (unsigned round = 0; round < 25; round++) {
        std::vector<std::thread> threads;
        for (unsigned i = 0; i < 8; i++)
            threads.emplace_back(work, round * 8 + i);
        for (auto &thread : threads)
            thread.join();
    }
    bool thrown = false;
    try {
        ::operator delete(::operator new(static_cast<size_t>(-1) / 4));
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    if (!thrown || ::operator new(static_cast<size_t>(-1) / 4, std::nothrow))
        return std::printf("no bad_alloc\n"), 1;
    if (int broken = glebe_check(nullptr, 1, nullptr, nullptr))
        return std::printf("glebe_check: %d\n", broken), 1;
    glebe_stats s;
    glebe_stats_read(&s);
    if (s.errors || s.pages_taken == 0)
        return std::printf("errors: %llu\n", static_cast<unsigned long long>(s.errors)), 1;
    std::printf("well %d\n", sum > 0);
    return 0;
}
