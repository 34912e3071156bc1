/* A static program that needs its C++ runtime only for operator new's bad_alloc: the linker takes the functions that
 * throw it only on request. At first there is a new_handler, and then there is none. */
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
