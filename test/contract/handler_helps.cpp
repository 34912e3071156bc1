// new_handler frees a reserve, and then the failed request is served. Run under GLEBE_LIMIT=64M.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

static void *reserve;
static int calls;

int main()
{
    reserve = std::malloc(std::size_t{40} << 20);
    if (!reserve)
        return 2;
    std::memset(reserve, 1, std::size_t{40} << 20);
    std::set_new_handler([] {
        ++calls;
        std::free(reserve);
        reserve = nullptr;
        std::set_new_handler(nullptr);
    });
    void *block = ::operator new(std::size_t{30} << 20);
    std::memset(block, 2, std::size_t{30} << 20);
    ::operator delete(block);
    return calls == 1 ? 0 : 1;
}
