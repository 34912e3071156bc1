// Every form of operator new and delete; a new_handler, called until it helps or gives up; std::bad_alloc, thrown
// through glebe's frames and caught. Runs with libstdc++ and with libc++.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            std::fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
            std::exit(1); \
        } \
    } while (0)

namespace {

void *volatile sink;
void *kept(void *p)
{
    sink = p;
    return sink;
}

struct alignas(256) Wide {
    char bytes[256];
};

volatile std::size_t enormous = std::numeric_limits<std::size_t>::max() / 4;

void forms()
{
    for (std::size_t n : {0u, 1u, 16u, 100u, 3000u, 50000u, 200000u, 3000000u}) {
        void *p = kept(::operator new(n));
        CHECK(p && (reinterpret_cast<std::uintptr_t>(p) & 15) == 0);
        std::memset(p, 1, n);
        ::operator delete(p);
        ::operator delete(kept(::operator new(n)), n);
        ::operator delete[](kept(::operator new[](n)));
        ::operator delete[](kept(::operator new[](n)), n);
        ::operator delete(kept(::operator new(n, std::nothrow)), std::nothrow);
        ::operator delete[](kept(::operator new[](n, std::nothrow)), std::nothrow);
        for (std::size_t a = 8; a <= 1u << 21; a *= 2) {
            auto al = std::align_val_t{a};
            p = kept(::operator new(n, al));
            CHECK(p && (reinterpret_cast<std::uintptr_t>(p) & (a - 1)) == 0);
            std::memset(p, 1, n);
            ::operator delete(p, al);
            ::operator delete(kept(::operator new(n, al)), n, al);
            p = kept(::operator new[](n, al));
            CHECK((reinterpret_cast<std::uintptr_t>(p) & (a - 1)) == 0);
            ::operator delete[](p, al);
            ::operator delete[](kept(::operator new[](n, al)), n, al);
            ::operator delete(kept(::operator new(n, al, std::nothrow)), al, std::nothrow);
            ::operator delete[](kept(::operator new[](n, al, std::nothrow)), al, std::nothrow);
        }
    }
    ::operator delete(nullptr);
    ::operator delete[](nullptr, std::align_val_t{64});
    auto *wide = new Wide[10];
    CHECK((reinterpret_cast<std::uintptr_t>(wide) & 255) == 0);
    delete[] wide;
    auto shared = std::make_shared<Wide>();
    CHECK((reinterpret_cast<std::uintptr_t>(shared.get()) & 255) == 0);
    // malloc, new, free and delete use one heap
    std::free(kept(::operator new(100)));
    ::operator delete(kept(std::malloc(100)));
}

template <class F> bool throws(F f)
{
    std::vector<int> witness(100, 7); // the exception unwinds it
    try {
        kept(f());
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

void failures()
{
    CHECK(throws([] { return ::operator new(enormous); }));
    CHECK(throws([] { return ::operator new[](enormous); }));
    CHECK(throws([] { return ::operator new(enormous, std::align_val_t{64}); }));
    CHECK(throws([] { return ::operator new[](enormous, std::align_val_t{4096}); }));
    CHECK(throws([] { return static_cast<void *>(new Wide[enormous / 256]); }));
    CHECK(!::operator new(enormous, std::nothrow));
    CHECK(!::operator new[](enormous, std::nothrow));
    CHECK(!::operator new(enormous, std::align_val_t{64}, std::nothrow));
    CHECK(!::operator new[](enormous, std::align_val_t{64}, std::nothrow));
    bool caught = false;
    std::thread([&caught] { caught = throws([] { return ::operator new(enormous); }); }).join();
    CHECK(caught);
}

int calls;
struct Own {};

void handlers()
{
    // gives up at the third call
    std::set_new_handler([] {
        if (++calls == 3)
            std::set_new_handler(nullptr);
    });
    CHECK(throws([] { return ::operator new(enormous); }) && calls == 3);
    calls = 0;
    std::set_new_handler([] {
        if (++calls == 5)
            std::set_new_handler(nullptr);
    });
    CHECK(!::operator new(enormous, std::nothrow) && calls == 5);
    // throws its own exception
    std::set_new_handler([] { throw Own(); });
    bool own = false;
    try {
        kept(::operator new(enormous, std::align_val_t{128}));
    } catch (const Own &) {
        own = true;
    }
    CHECK(own);
    // ... but never out of a nothrow form, which returns null whatever was thrown
    CHECK(!::operator new(enormous, std::nothrow));
    CHECK(!::operator new[](enormous, std::nothrow));
    CHECK(!::operator new(enormous, std::align_val_t{128}, std::nothrow));
    CHECK(!::operator new[](enormous, std::align_val_t{128}, std::nothrow));
    std::set_new_handler([] { throw std::bad_alloc(); });
    CHECK(!::operator new(enormous, std::nothrow));
    std::set_new_handler(nullptr);
}

} // namespace

int main()
{
    forms();
    failures();
    handlers();
}
