# 64-bit Arm from a PC: `tools/setup test` installs the compiler and qemu, `tools/foreign arm64` fetches cmocka.
#   cmake -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake ...

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

set(foreign ${CMAKE_CURRENT_LIST_DIR}/../build/foreign/arm64)
list(APPEND CMAKE_PREFIX_PATH ${foreign}/usr)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
