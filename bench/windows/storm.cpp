// A storm of small blocks: maps of the standard library, which allocate a node for each entry, filled, thinned,
// refilled and dropped.
//
//     storm THREADS ROUNDS     prints wall ns, processor ns and the peak of the working set in bytes
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <windows.h>
#include <psapi.h>

#ifdef WITH_MIMALLOC
#include <mimalloc-new-delete.h>
#endif

namespace {

uint64_t round_of(uint64_t seed)
{
    constexpr int entries = 30000;
    std::unordered_map<uint64_t, std::string> map;
    auto next = [&] { return seed = seed * 6364136223846793005u + 1442695040888963407u, seed >> 40; };
    for (int i = 0; i < entries; i++)
        map[next()] = std::string(next() % 60, 'x');
    for (auto it = map.begin(); it != map.end();)
        it = it->first & 1 ? map.erase(it) : std::next(it);
    for (int i = 0; i < entries / 2; i++)
        map.emplace(next(), "refilled");
    return map.size();
}

uint64_t of(FILETIME time)
{
    return (uint64_t(time.dwHighDateTime) << 32 | time.dwLowDateTime) * 100;
}

} // namespace

int main(int words, char **word)
{
    int threads = words > 1 ? std::atoi(word[1]) : 1, rounds = words > 2 ? std::atoi(word[2]) : 10;
    std::vector<std::thread> workers;
    std::vector<uint64_t> sums(threads);
    LARGE_INTEGER begin, end, frequency;
    QueryPerformanceFrequency(&frequency);
    QueryPerformanceCounter(&begin);
    for (int t = 0; t < threads; t++)
        workers.emplace_back([t, rounds, &sums] {
            for (int i = 0; i < rounds; i++)
                sums[t] += round_of(t * 1000 + i);
        });
    for (auto &worker : workers)
        worker.join();
    QueryPerformanceCounter(&end);
    FILETIME created, ended, kernel, user;
    GetProcessTimes(GetCurrentProcess(), &created, &ended, &kernel, &user);
    PROCESS_MEMORY_COUNTERS memory;
    GetProcessMemoryInfo(GetCurrentProcess(), &memory, sizeof memory);
    std::printf("%llu %llu %llu\n", (unsigned long long)((end.QuadPart - begin.QuadPart) * 1e9 / frequency.QuadPart),
        (unsigned long long)(of(kernel) + of(user)), (unsigned long long)memory.PeakWorkingSetSize);
    return sums[0] == 0;
}
