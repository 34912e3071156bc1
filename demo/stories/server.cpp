// A server: a day of sessions, of which each leaves a small record that stays. Where the records are among the
// sessions' blocks, nearly each page keeps one, and no page becomes empty. With OWN_HEAP the records have a heap of
// their own.
#include <glebe.h>

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace {

struct session {
    std::vector<std::unique_ptr<char[]>> buffers;
};

std::vector<char *> records;

char *new_record()
{
    const std::size_t bytes = 200;
#ifdef OWN_HEAP
    static glebe_heap *heap = glebe_heap_create(0);
    void *memory = glebe_heap_malloc(heap, bytes);
#else
    void *memory = std::malloc(bytes);
#endif
    return static_cast<char *>(std::memset(memory, 1, bytes));
}

void day()
{
    std::vector<session> sessions(4000);
    for (std::size_t i = 0; i < sessions.size(); i++) {
        for (int buffer = 0; buffer < 64; buffer++) {
            sessions[i].buffers.emplace_back(new char[200]);
            std::memset(sessions[i].buffers.back().get(), 2, 200);
        }
        records.push_back(new_record());
    }
}

} // namespace

int main()
{
    for (std::string request; std::getline(std::cin, request);) {
        day();
        std::cout << records.size() << std::endl;
    }
}
