# 32-bit PCs from a 64-bit one: 4-byte pointers; programs run natively with the cross compiler's own C library.
# (Not `gcc -m32`: its package, gcc-multilib, cannot be installed beside any cross compiler.)
#   cmake -DCMAKE_TOOLCHAIN_FILE=cmake/i686.cmake ...

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR i686)
set(CMAKE_C_COMPILER i686-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER i686-linux-gnu-g++)

set(foreign ${CMAKE_CURRENT_LIST_DIR}/../build/foreign/i386)
list(APPEND CMAKE_PREFIX_PATH ${foreign}/usr)
set(CMAKE_LIBRARY_ARCHITECTURE i386-linux-gnu)
set(CMAKE_EXE_LINKER_FLAGS_INIT
    "-Wl,--dynamic-linker=/usr/i686-linux-gnu/lib/ld-linux.so.2 -Wl,-rpath,/usr/i686-linux-gnu/lib")
