// A C++ plugin, which a C program opens in a scope of its own: the C++ runtime is loaded with it, after glebe, and
// glebe cannot see it. Exceptions still work.
#include <cstdlib>
#include <limits>
#include <new>

namespace {

volatile std::size_t enormous = std::numeric_limits<std::size_t>::max() / 4;
void *volatile sink;

struct Own {};

template <class F> bool is_null(F f)
{
    return (sink = f()) == nullptr;
}

} // namespace

// The number of the first check that fails; 0: none.
extern "C" int plugin_new()
{
    try {
        sink = ::operator new(enormous);
        return 1;
    } catch (const std::bad_alloc &) {
    }
    try {
        sink = ::operator new[](enormous, std::align_val_t{64});
        return 2;
    } catch (const std::bad_alloc &) {
    }
    if (!is_null([] { return ::operator new(enormous, std::nothrow); }))
        return 3;
    std::set_new_handler([] { throw Own(); });
    try {
        sink = ::operator new(enormous);
        return 4;
    } catch (const Own &) {
    }
    if (!is_null([] { return ::operator new(enormous, std::nothrow); }))
        return 5;
    if (!is_null([] { return ::operator new[](enormous, std::align_val_t{64}, std::nothrow); }))
        return 6;
    std::set_new_handler(nullptr);
    return 0;
}
