// Allocates before and after main: in constructors of every priority, static objects, atexit, thread_local destructors
// and destructor functions. A block from one of these may be freed in any later one.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <pthread.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

void *from_first, *from_object;

void use(const char *where)
{
    static const std::size_t sizes[] = {1, 24, 500, 2048, 2049, 9000, 70000, 600000, 2000000};
    void *blocks[9];
    for (int i = 0; i < 9; i++) {
        blocks[i] = std::malloc(sizes[i]);
        if (!blocks[i]) {
            std::fprintf(stderr, "%s: no memory\n", where);
            _exit(1);
        }
        std::memset(blocks[i], i, sizes[i]);
    }
    for (void *block : blocks)
        std::free(block);
    std::string text(where);
    text += " was here, with a string that is too long to lie in the object itself";
    std::vector<std::string> copies(20, text);
    if (write(STDOUT_FILENO, where, std::strlen(where)) < 0 || write(STDOUT_FILENO, "\n", 1) < 0)
        _exit(1);
}

__attribute__((constructor(101))) void first()
{
    use("first");
    from_first = std::malloc(100);
}

struct Object {
    std::map<int, std::string> map;
    Object()
    {
        use("object");
        for (int i = 0; i < 100; i++)
            map[i] = std::string(100, 'x');
        from_object = std::malloc(5000);
    }
    ~Object()
    {
        use("object's end");
        map.clear();
        std::free(from_first);
    }
} object;

struct Local {
    std::vector<int> *numbers = new std::vector<int>(1000);
    void touch() { (*numbers)[0]++; }
    ~Local()
    {
        use("thread_local's end");
        delete numbers;
    }
};
thread_local Local local;

__attribute__((destructor(101))) void last()
{
    use("last");
    std::free(from_object);
}

} // namespace

int main()
{
    std::atexit([] { use("atexit"); });
    local.touch();
    std::thread([] { local.touch(); }).join();
    use("main");
}
