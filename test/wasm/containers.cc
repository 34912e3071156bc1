// A C++ program in a module: operator new and the containers use glebe through malloc. Prints "ok" and exits with 0.
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <glebe.h>

struct alignas(128) wide {
    char bytes[300];
};

int main()
{
    std::map<std::string, std::vector<int>> lists;
    std::unordered_map<int, std::unique_ptr<std::string>> names;
    for (int i = 0; i < 20000; i++) {
        lists["list " + std::to_string(i % 700)].push_back(i);
        names[i % 3000] = std::make_unique<std::string>(i % 90, 'x');
        if (i % 7 == 0)
            lists.erase("list " + std::to_string(i % 350));
    }
    size_t sum = 0;
    for (auto &[name, list] : lists)
        sum += list.size();
    auto *aligned = new wide[3];
    if (reinterpret_cast<std::uintptr_t>(aligned) % 128 != 0 || glebe_usable_size(aligned) < 900)
        return 2;
    delete[] aligned;
    glebe_stats stats;
    glebe_stats_read(&stats);
    if (sum == 0 || stats.small_bytes < 100000 || glebe_check(nullptr, 2, nullptr, nullptr) != 0)
        return 1;
    std::puts("ok");
}
