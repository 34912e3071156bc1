// A program that never names malloc; only its shared libraries do. Linked with libglebe-override.a, or glebe::override,
// it must still use glebe. (The option -u malloc makes the linker take the archive's member.)
#include <cstdio>
#include <dlfcn.h>
#include <iostream>

int main()
{
    auto *object = new int[1000];
    object[7] = 7;
    auto *find = reinterpret_cast<std::size_t (*)(const void *)>(dlsym(RTLD_DEFAULT, "glebe_usable_size"));
    std::size_t usable = reinterpret_cast<std::size_t (*)(void *)>(dlsym(RTLD_DEFAULT, "malloc_usable_size"))(object);
    std::cout << object[7] << ' ' << usable << ' ' << (find != nullptr) << '\n';
    delete[] object;
}
