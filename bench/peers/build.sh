#!/bin/sh
# Builds the peers: every allocator we compare with, each as one library that
# can be preloaded, in $OUT (default bench/build/peers).
#
#   bench/peers/build.sh [NAME...]       all, or these
#   bench/peers/build.sh bdwgc           the collector, as bdwgc/libgc.so.1
#
#   registry crates --cargo vendor--> build/vendor/NAME-VERSION/ --cmake, make, cc--> NAME.so
#   Debian packages ------------------------------------------- copied ------------> NAME.so
#
# Every peer is built the way its own build files build a release: snmalloc with
# its CMake file, jemalloc with its configure script, mimalloc, rpmalloc and
# hardened_malloc with the flags that theirs would write. Nothing is tuned for or
# against anyone.
#
# The driver runs the last four only if they are named: they look for mistakes
# and attacks.
#
# A peer that cannot be built is reported and the others go on; the exit status
# is then 1. NAME.version holds what the driver prints. A library newer than
# this script and the lock file is left alone, so the second run takes no time.
# shellcheck disable=SC3013,SC2317  # every sh in use knows -nt; `peer` calls by name
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${BENCH_BUILD:-$here/../build}
mkdir -p "$build"
build=$(cd "$build" && pwd)
out=$build/peers
vendor=$build/vendor
work=$build/peer-objects
log=$build/peers.log
jobs=${JOBS:-2}
wanted=$*
mkdir -p "$out" "$work"
: > "$log"
failed=0

say() { printf '%s\n' "peers: $*"; }

# fresh NAME: is NAME.so there, and newer than all it is made from?
fresh() {
    [ -s "$out/$1.so" ] && [ -s "$out/$1.version" ] &&
        [ "$out/$1.so" -nt "$here/build.sh" ] && [ "$out/$1.so" -nt "$here/Cargo.lock" ] &&
        [ "$out/$1.so" -nt "$here/mimalloc/Cargo.lock" ]
}

# source CRATE: the directory of its one vendored version.
source_of() { for d in "$vendor/$1"-[0-9]*; do printf '%s' "$d"; done; }

# peer NAME FUNCTION: build one peer, unless it is fresh. FUNCTION leaves
# $work/NAME.so and prints the version on its standard output, nothing else.
peer() {
    case " ${wanted:-$1} " in *" $1 "*) ;; *) return ;; esac
    if fresh "$1"; then
        say "$1: up to date ($(cat "$out/$1.version"))"
        return
    fi
    say "$1: building"
    if version=$($2 2>>"$log") && [ -s "$work/$1.so" ] && verify "$1"; then
        cp "$work/$1.so" "$out/$1.so.new" && mv "$out/$1.so.new" "$out/$1.so"
        printf '%s\n' "$version" > "$out/$1.version"
        say "$1: $version"
    else
        failed=1
        say "$1: FAILED, see $log"
    fi
}

# The positive control: in a process with the library preloaded, malloc and its
# family must come from it.
verify() {
    LD_PRELOAD="$work/$1.so" "$build/bin/whose" "$work/$1.so" >>"$log" 2>&1 && return
    say "$1: was built, but a program with it preloaded does not call it"
    return 1
}

# The crates leave out what mimalloc's CMake files need to run, so these are the
# flags that its CMakeLists.txt would set for a release with overriding on, and
# what it finds on Linux with glibc (version 3 reads that).
mimalloc() {    # LINE (v2, v3, ...), SOURCES [FLAG]
    src=$2
    cc -std=gnu11 -O3 -w -fPIC -shared -fvisibility=hidden -ftls-model=initial-exec \
        -fno-builtin-malloc -DNDEBUG -DMI_BUILD_RELEASE -DMI_CMAKE_BUILD_TYPE=release \
        -DMI_MALLOC_OVERRIDE=1 -DMI_SHARED_LIB -DMI_SHARED_LIB_EXPORT \
        -DMI_HAS_UNISTDH=1 -DMI_HAS_EXECINFOH=1 ${3:+"$3"} \
        -I"$src/include" -I"$src/src" -o "$work/mimalloc-$1.so" "$src/src/static.c" -pthread >&2 || return
    n=$(sed -n 's/^#define MI_MALLOC_VERSION *\([0-9]*\).*/\1/p' "$src/include/mimalloc.h")
    echo "mimalloc $((n / 10000)).$((n / 100 % 100)).$((n % 100))${3:+ $3}"
}
mimalloc_v2() { mimalloc v2 "$(source_of libmimalloc-sys)/c_src/mimalloc/v2"; }
mimalloc_v3() { mimalloc v3 "$(source_of rustfs-mimalloc-sys)/c_src/mimalloc"; }
# What its CMake option MI_SECURE writes: 4 for ON, which is also the crate's feature `secure`, and 5 for FULL.
mimalloc_secure() { mimalloc secure "$(source_of rustfs-mimalloc-sys)/c_src/mimalloc" -DMI_SECURE=4; }
mimalloc_full() { mimalloc full "$(source_of rustfs-mimalloc-sys)/c_src/mimalloc" -DMI_SECURE=5; }

# The crate keeps jemalloc's configure script beside the tree, not in it.
jemalloc() {
    src=$(source_of tikv-jemalloc-sys)
    version=${src##*sys-}
    version=${version#*+}
    rm -rf "$work/jemalloc" && cp -r "$src/jemalloc" "$work/jemalloc" &&
        cp "$src/configure/configure" "$work/jemalloc/" && cd "$work/jemalloc" || return
    { sh ./configure --with-version="$version" --disable-doc --disable-static &&
        make -j "$jobs" build_lib_shared; } >&2 || return
    cp -L lib/libjemalloc.so.2 "$work/jemalloc.so" && echo "jemalloc ${version%%-*}"
}

snmalloc_target() {    # NAME, TARGET: a library of its CMake file
    src=$(source_of snmalloc-sys)
    cmake -S "$src/upstream" -B "$work/snmalloc" -DCMAKE_BUILD_TYPE=Release \
        -DSNMALLOC_BUILD_TESTING=OFF >&2 &&
        cmake --build "$work/snmalloc" -j "$jobs" --target "$2" >&2 &&
        cp -L "$work/snmalloc/lib$2.so" "$work/$1.so" &&
        echo "$1 ${src##*sys-}"
}
snmalloc() { snmalloc_target snmalloc snmallocshim; }
snmalloc_checked() { snmalloc_target snmalloc-checked snmallocshim-checks; }

# The default configuration, with the flags of its Makefile, which the crate leaves out; but for any x86-64 processor,
# as the others. It is C23, for which Debian's gcc is too old. new.cc has operators new and delete, which check sizes.
hardened_malloc() {
    src=$(source_of hardened-malloc-sys) tree=$src/vendor/hardened-malloc
    (
        mkdir -p "$work/hardened" && cd "$work/hardened" || exit
        set -- -O3 -flto -fPIC -fvisibility=hidden -fno-plt -fstack-clash-protection -fcf-protection \
            -fstack-protector-strong -w -D_GNU_SOURCE -I"$tree/include"
        # shellcheck disable=SC2013  # one definition a line, without spaces
        for definition in $(grep '^[A-Z_]*=' "$src/config-default.conf"); do set -- "$@" "-D$definition"; done
        clang-19 -std=c23 "$@" -c "$tree"/*.c &&
            clang-19 -std=c++17 -fsized-deallocation "$@" -c "$tree/new.cc" &&
            clang-19 "$@" -fuse-ld=lld-19 -shared -Wl,-O1,--as-needed,-z,defs,-z,relro,-z,now,-z,nodlopen,-z,text \
                -o "$work/hardened_malloc.so" ./*.o -lstdc++
    ) >&2 && echo "hardened_malloc ${src##*sys-}"
}

rpmalloc() {
    src=$(source_of rpmalloc-sys)/rpmalloc
    # shellcheck disable=SC2086
    cc -std=gnu11 -O3 -funroll-loops -fomit-frame-pointer -w -D_GNU_SOURCE=1 -DRPMALLOC_COMPILE=1 \
        -DBUILD_RELEASE=1 -DNDEBUG -DENABLE_PRELOAD=1 -DENABLE_OVERRIDE=1 -fPIC -shared \
        -o "$work/rpmalloc.so" "$src/rpmalloc/rpmalloc.c" -pthread >&2 || return
    echo "rpmalloc $(grep -m1 -E '^[0-9]+\.[0-9]+\.[0-9]+' "$src/CHANGELOG")"
}

tcmalloc() {
    lib=$(dpkg -L libtcmalloc-minimal4 | grep -m1 'libtcmalloc_minimal\.so\.4$') &&
        cp -L "$lib" "$work/tcmalloc.so" &&
        echo "gperftools $(dpkg-query -W -f '${Version}' libtcmalloc-minimal4)"
}

# bdwgc, by its own CMake file, for large heaps as in Debian's package. Its sources are fetched only for it.
bdwgc() {
    [ ! "$out/bdwgc/libgc.so.1" -nt "$here/bdwgc/Cargo.lock" ] || [ "$here/build.sh" -nt "$out/bdwgc/libgc.so.1" ] ||
        return 0
    say "bdwgc: building"
    src=$work/bdwgc-source
    cargo vendor --quiet --locked --manifest-path "$here/bdwgc/Cargo.toml" "$src" >/dev/null &&
        cmake -S "$src/bdwgc-alloc-sys/vendor/bdwgc" -B "$work/bdwgc" -DCMAKE_BUILD_TYPE=Release \
            -Denable_large_config=ON -Dbuild_tests=OFF >&2 &&
        cmake --build "$work/bdwgc" -j "$jobs" --target gc >&2 &&
        mkdir -p "$out/bdwgc" && cp -L "$work/bdwgc/libgc.so.1" "$out/bdwgc/"
}

case $wanted in bdwgc)
    bdwgc 2>>"$log" && exit
    say "bdwgc: FAILED, see $log"
    exit 1 ;;
esac
if [ ! -d "$vendor" ] || [ "$here/Cargo.lock" -nt "$vendor/.done" ] ||
    [ "$here/mimalloc/Cargo.lock" -nt "$vendor/.done" ]; then
    say "fetching the sources"
    cargo vendor --quiet --locked --versioned-dirs --manifest-path "$here/Cargo.toml" \
        --sync "$here/mimalloc/Cargo.toml" "$vendor" >/dev/null 2>>"$log" ||
        { say "cargo vendor FAILED, see $log"; exit 1; }
    touch "$vendor/.done"
fi
make -s -C "$here/.." BENCH_BUILD="$build" whose || exit 1
peer mimalloc-v3 mimalloc_v3
peer mimalloc-v2 mimalloc_v2
peer rpmalloc rpmalloc
peer tcmalloc tcmalloc
peer snmalloc snmalloc
peer jemalloc jemalloc
peer hardened_malloc hardened_malloc
peer mimalloc-secure mimalloc_secure
peer mimalloc-full mimalloc_full
peer snmalloc-checked snmalloc_checked
exit $failed
