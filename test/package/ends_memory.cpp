/* A program that needs its C++ runtime for nothing but the bad_alloc of operator new, in a static program: the linker
 * takes what throws it only if it is asked to. A handler is there first, and then is not. */
#include <cstdio>
#include <new>

static int called;

static void give_up()
{
    called++;
    std::set_new_handler(nullptr);
}

int main()
{
    volatile std::size_t bytes = ~std::size_t{0} / 4;
    std::set_new_handler(give_up);
    try {
        void *block = ::operator new(bytes);
        std::printf("got %p\n", block);
    } catch (...) {
        std::printf("handler %d, caught\n", called);
    }
}
