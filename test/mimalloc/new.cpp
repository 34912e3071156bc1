// mi_new and its variants: the new_handler, then std::bad_alloc; the nothrow forms return null, even if a handler
// throws.
#include <cstdio>
#include <cstdlib>
#include <new>

extern "C" {
void *mi_new(size_t), *mi_new_n(size_t, size_t), *mi_new_aligned(size_t, size_t), *mi_new_nothrow(size_t),
    *mi_new_aligned_nothrow(size_t, size_t);
void *mi_new_realloc(void *, size_t), *mi_new_reallocn(void *, size_t, size_t),
    *mi_heap_alloc_new(struct mi_heap *, size_t);
struct mi_heap *mi_heap_new(void);
void mi_free(void *);
}

static volatile size_t enormous = (size_t)1 << 60;
static int handled;

template <typename F> static int throws(F f)
{
    try {
        f();
    } catch (const std::bad_alloc &) {
        return 1;
    }
    return 0;
}

int main()
{
    mi_heap *heap = mi_heap_new();
    void *p = mi_new(10), *q = mi_new_n(3, 9), *r = mi_new_aligned(9, 128);
    p = mi_new_realloc(p, 5000), q = mi_new_reallocn(q, 9, 9);
    if (!p || !q || (size_t)r % 128)
        return 1;
    mi_free(p), mi_free(q), mi_free(r);
    mi_free(mi_heap_alloc_new(heap, 10));
    for (int with = 0; with < 2; with++) {
        int thrown = throws([] { mi_new(enormous); }) + throws([] { mi_new_n(enormous, enormous); })
            + throws([] { mi_new_aligned(enormous, 64); })
            + throws([] { mi_new_realloc(nullptr, enormous); }) + throws([] { mi_new_reallocn(nullptr, enormous, 3); })
            + throws([heap] { mi_heap_alloc_new(heap, enormous); });
        printf("%d thrown, %d handled, null %d %d\n", thrown, handled, !mi_new_nothrow(enormous),
            !mi_new_aligned_nothrow(enormous, 64));
        std::set_new_handler([] {
            handled++;
            throw std::bad_alloc();
        });
    }
    return 0;
}
