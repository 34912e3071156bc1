# The targets of glebe. No build knowledge is here: CMake builds the libraries, cargo the `glebe` command, and
# tools/setup installs what they need. `make` prints the list; the text after `##` describes a target.
#
#   build/            libglebe.so libglebe.a ... and the `glebe` command
#   build/cmake*      one CMake tree per configuration (plain, asan, tsan, i686, aarch64)

.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

JOBS   ?= $(shell nproc 2>/dev/null || echo 2)
PYTHON ?= $(shell tools/setup which python)
CARGO  ?= $$(tools/setup which cargo)

# Test files run in parallel if pytest can; tests in one file may share what they build. One worker more than there are
# processors: some tests only wait. Files run in the order that they are named in, so the longest come first.
# MORE=no skips those marked "more". Only `make test-long` runs those marked "long".
MORE ?= yes
more = $(if $(filter no,$(MORE)),,$(1))
workers = $(shell expr $(JOBS) + 1)
in-parallel = $(shell $(PYTHON) -c "import xdist" 2>/dev/null && echo "--numprocesses=$(workers) --dist=loadfile")
chosen = "not long$(if $(call more,yes),, and not more)"
pytest = $(PYTHON) -m pytest -q -rs -o cache_dir=$(build)/pytest/$@ -m $(chosen) $(in-parallel)

build := $(CURDIR)/build
say    = @printf '\n== %s\n' "$(1)"; mkdir -p $(build); date +%s >$(build)/started-$@
took   = @echo "== $@ took $$(($$(date +%s) - $$(cat $(build)/started-$@))) s" | tee -a $(build)/times
# PATH may begin with an older Rust, so every line that calls cargo or rustc gets the chosen one. Each line chooses when
# it runs, since the line before may have installed one.
rust   = PATH="$$(dirname "$(CARGO)"):$$PATH"
cargo  = GLEBE_LIBRARY_DIR=$(build) $(rust) cargo
# Clippy looks at our crates while it compiles them, for tests: it need not check what they depend on once more.
clippy = RUSTC_WORKSPACE_WRAPPER=clippy-driver
# A make that knows of another above it announces each folder that it enters.
cmake-build = env -u MAKELEVEL cmake --build
# The command is compiled by this profile of Cargo.toml. `make test` and `make test-all` take `checked`, which compiles
# in half the time. Where the optimised command is already built, they take that.
export COMMAND_PROFILE ?= release

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1|\2/p' $(firstword $(MAKEFILE_LIST)) | \
	    awk -F'|' '{ printf "%-20s %s\n", $$1, $$2 }'

# ---- build ------------------------------------------------------------------------------------------------------

.PHONY: demo setup lib cli share install wasm lua windows package
demo: ## install what is missing, build, and compare allocators on three real programs (minutes)
	@demo/run

setup: ## install what building and testing need (Debian, Ubuntu); says what and why first
	@tools/setup build test

lib: | $(build) ## build the libraries into build/
	@tools/setup build
	$(call say,libraries)
	@cmake -S . -B $(build)/cmake -DGLEBE_OUTPUT_DIR=$(build) >$(build)/cmake.log || { cat $(build)/cmake.log; exit 1; }
	@$(cmake-build) $(build)/cmake --parallel $(JOBS)

cli: lib ## build the `glebe` command, its manual pages and its completions into build/
	$(call say,the glebe command)
	@$(if $(filter checked,$(COMMAND_PROFILE)),$(clippy)) $(cargo) build --profile $(COMMAND_PROFILE) -p glebe-cli
	@cmake -E copy_if_different target/$(COMMAND_PROFILE)/glebe $(build)/glebe
	@$(MAKE) --no-print-directory share

share := $(build)/share
share: # manual pages and completions, by build/glebe; packages have no other way to make them
	@rm -rf $(share)/man && $(build)/glebe man --all $(share)/man/man1
	@cd $(share) && mkdir -p bash-completion/completions zsh/site-functions fish/vendor_completions.d
	@$(build)/glebe completions bash >$(share)/bash-completion/completions/glebe
	@$(build)/glebe completions zsh >$(share)/zsh/site-functions/_glebe
	@$(build)/glebe completions fish >$(share)/fish/vendor_completions.d/glebe.fish

# Root installs an existing build as it is, so root needs no Rust.
PREFIX ?= /usr/local
if-unbuilt = $(if $(and $(filter 0,$(shell id -u)),$(wildcard target/$(COMMAND_PROFILE)/glebe)),,cli)
install: $(if-unbuilt) ## install libraries, headers and the command into PREFIX (/usr/local), below DESTDIR if set
	$(call say,into $(DESTDIR)$(PREFIX))
	@DESTDIR="$(DESTDIR)" cmake --install $(build)/cmake --prefix "$(PREFIX)"
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" != 0 ] || ! command -v ldconfig >/dev/null || ldconfig

wasm: | $(build) ## build the archives for C and C++ in WebAssembly into build/wasm32/ and build/wasm32-threads/
	@tools/setup wasm
	$(call say,archives for wasm32)
	@tools/wasm

lua: | $(build) ## build the Lua module into build/lua/5.4/ and so on, for each Lua whose headers are here
	@tools/setup lua
	$(call say,the Lua module)
	@tools/lua

windows: | $(build) ## build the archives for Windows programs into build/windows/
	@tools/setup windows
	$(call say,archives for Windows)
	@tools/windows $(if $(call more,yes),,libraries)

package: ## build what users install into build/packages/: wheels, Debian packages, crates, archives (half an hour)
	@tools/setup build package
	$(call say,packages)
	@tools/package $(PARTS)

docs: | $(build) ## build the site of docs/ into build/docs/, and follow its links
	@tools/setup docs
	$(call say,the site)
	@if tools/setup which mdbook >/dev/null; then tools/docs; else echo "skipped: mdBook could not be had"; fi
	$(took)

# ---- test -------------------------------------------------------------------------------------------------------
# `make test` covers every part of the system with its quickest tests. `make test-all` runs every tier whole. Both start
# with the cheapest tier, then the longest, and begin no other once one failed. Each tier can be run alone. Only PCs
# test foreign processors; on an Arm machine test-unit is the Arm test.

foreign-x86_64 := test-i686 test-aarch64
wine-x86_64 := test-windows
c-tiers := test-unit test-asan test-tsan $(foreign-$(shell uname -m))
tiers := test-lint test-e2e test-tinygo $(wine-$(shell uname -m)) test-cli $(c-tiers) test-crate test-wasm test-lua docs

.PHONY: docs test test-all $(tiers) test-tinygo-oldest test-windows-long test-macos test-miri test-loaded test-bare
.PHONY: test-long test-setup test-packages
quick-tiers := $(filter-out docs $(filter-out test-unit,$(c-tiers)),$(tiers))
# $(1): tiers, $(2): arguments for make. Three at a time keep 1.85 of two processors busy; two at a time 1.55. What
# they install is installed before, where one can watch it.
run-tiers = $(MAKE) --no-print-directory --jobs=3 --output-sync=target $(1) $(2) JOBS=$(JOBS) \
	COMMAND_PROFILE=$(if $(wildcard target/release/glebe),release,checked) && \
	printf '\nall tiers passed: %s\n' "$(1)"
# Recipes do not share make's processes, which compilers would wait for.
unexport MAKEFLAGS MFLAGS

setups := build test lua wasm wazero tinygo crate $(if $(wine-$(shell uname -m)),windows windows-programs)

test: | $(build) ## the quick tests of every part: lint, unit, WebAssembly, Lua, Windows and so on (minutes)
	@tools/setup $(setups)
	@$(call run-tiers,$(quick-tiers),MORE=no)

test-all: | $(build) ## every tier: also sanitizers and other processors (half an hour)
	@tools/setup $(setups) wasip2 wheel docs
	@for processor in $(if $(foreign-$(shell uname -m)),i386 arm64); do tools/foreign $$processor; done
	@$(call run-tiers,$(tiers),)

test-setup: # of one tier, which installs the rest itself
	@tools/setup build test

# Half of each run keeps only one processor busy, so the two run in parallel. What failed comes last. `make test` leaves
# the lint's own test to `make test-all`, and warnings in the builds but the default one (60 s of 77).
test-lint: | $(build) ## headers compile alone, warnings, layers, names, scripts, workflows; and the lint's own test
	$(call say,lint)
	@$(if $(call more,yes),,exec tools/lint --quick;) \
	    logs="$(build)/lint.log $(build)/lint-self-test.log"; set -- $$logs; \
	    tools/lint --self-test >$$2 2>&1 & self_test=$$!; tools/lint >$$1 2>&1; told=$$?; wait $$self_test; tested=$$?; \
	    if [ $$told = 0 ]; then cat $$1 $$2; else cat $$2 $$1; fi; [ $$told$$tested = 00 ]
	$(took)

# One suite in one configuration: $(1) names the tree, $(2) are options for CMake, $(3) targets besides the tests.
# LONG=ON adds tests that take longer than a push can wait for: all seeds under sanitizers and emulators, every test
# under ThreadSanitizer, and -O2 for other processors.
LONG ?= OFF
# LONG=ON: 24 seeds and ninety days of a service; else 16 and thirty. `make test`: each kind of seed once, as under
# sanitizers; the first orders of each interleaving; a fifth of the damaged inputs.
less = $(if $(filter ON,$(LONG)),,GLEBE_TEST_DAYS=30 \
    $(if $(call more,yes),GLEBE_TEST_SEEDS=16,GLEBE_TEST_SEEDS=8 GLEBE_TEST_STRIDE=5 GLEBE_INTERLEAVE=short))
define suite
	$(call say,C tests: $(1))
	@cmake -S . -B $(build)/cmake-$(1) -DGLEBE_BUILD_TESTS=ON -DGLEBE_TEST_LONG=$(LONG) $(2) >$(build)/cmake-$(1).log || \
	    { cat $(build)/cmake-$(1).log; exit 1; }
	@$(cmake-build) $(build)/cmake-$(1) --parallel $(JOBS) --target glebe-tests $(3)
	@$(less) ctest --test-dir $(build)/cmake-$(1) --no-tests=error --output-on-failure --parallel $(JOBS)
	$(took)
endef

# -O1 compiles in half the time. The other tests use libraries of -O2.
test-unit: | $(build) ## C unit and model tests
	$(call suite,test,-DCMAKE_C_FLAGS_RELWITHDEBINFO="$(if $(filter OFF,$(LONG)),-O1,-O2 -g) -DNDEBUG")

test-asan: | $(build) ## test-unit under AddressSanitizer and UndefinedBehaviorSanitizer
	$(call suite,asan,-DGLEBE_SANITIZE=address$(comma)undefined)

test-tsan: | $(build) ## the tests of test-unit that start threads, under ThreadSanitizer
	$(call suite,tsan,-DGLEBE_SANITIZE=thread)

# These libraries cover every source file, and every constant in which builds differ. For other processors -O1 compiles
# them in half the time.
variants := glebe-secure glebe-audit glebe-mimalloc-2 glebe-mimalloc-3
foreign = -DCMAKE_TOOLCHAIN_FILE=cmake/$(1).cmake \
	-DCMAKE_C_FLAGS_RELWITHDEBINFO="$(if $(filter OFF,$(LONG)),-O1,-O2 -g) -DNDEBUG"

test-i686: | $(build) ## test-unit with 32-bit pointers
	@tools/foreign i386
	$(call suite,i686,$(call foreign,i686),$(variants))

test-aarch64: | $(build) ## test-unit for 64-bit Arm, under qemu
	@tools/foreign arm64
	$(call suite,aarch64,$(call foreign,aarch64),$(if $(filter ON,$(LONG)),$(variants)))

# Tests run both of our crates with debug assertions and overflow checks, and without optimisation. The crates that they
# depend on are those that `make cli` compiled. Packages are tested one at a time: together, cargo would recompile the
# command for crate features that it does not use.
checked = --profile $(COMMAND_PROFILE) -p $(1) $(if $(filter release,$(COMMAND_PROFILE)),\
    $(foreach option,debug-assertions=true overflow-checks=true opt-level=0,\
        --config profile.release.package.$(1).$(option)))

# Fails if rustc or clippy warns, now or when it compiled the crate.
define tested
	@log=$(build)/clippy-$(1).log; $(clippy) $(cargo) test --no-run --message-format=short $(call checked,$(1)) \
	    >$$log 2>&1 && ! grep -q ': warning: ' $$log || { cat $$log; exit 1; }
	@$(less) $(clippy) $(cargo) test $(call checked,$(1))
endef

test-cli: lib ## the `glebe` command: format, clippy, tests
	$(call say,the glebe command)
	@$(cargo) fmt --all --check
	$(call tested,glebe-cli)
	$(call tested,glebe)
	$(took)

test-crate: lib ## the crate `glebe`: Bump in WebAssembly, no C compiler, the oldest Rust; both crates unpacked and run
	$(call say,the crates)
	@tools/setup crate
	@$(rust) $(pytest) test/package/test_crates*.py test/crate $(call more,bench/rust)
	$(took)

test-wasm: wasm ## C and C++ programs in WebAssembly, under wasmtime, node and wazero
	@tools/setup wazero
	$(call say,WebAssembly)
	@$(pytest) test/wasm
	$(took)

test-lua: lib lua ## states with caps and accounts, and the module, in each Lua
	$(call say,Lua)
	@$(pytest) test/lua
	$(took)

test-windows: windows cli ## Windows programs on glebe, under Wine
	$(call say,Windows under Wine)
	@tools/setup windows-programs
	@$(rust) $(pytest) test/windows || { \
	    echo "running the failed tests again: Wine sometimes fails when threads end, with its own malloc too"; \
	    $(rust) $(PYTHON) -m pytest -q -rs -o cache_dir=$(build)/pytest/$@ --last-failed test/windows; }
	$(took)

test-windows-long: windows cli ## clang-tidy, CPython, LLVM's JIT ten thousand times, zig's compiler (half an hour)
	@tools/check-macos
	@tools/setup windows-programs windows-programs-long
	$(call say,Windows under Wine at length)
	@GLEBE_TEST_LONG=1 $(rust) $(PYTHON) -m pytest -q -rs test/windows

# Uses the TinyGo of $TINYGO or PATH if it is recent enough; else the set-up builds one, once, which takes minutes.
test-tinygo: wasm ## the Go module under TinyGo in each engine
	@tools/setup tinygo $(call more,wasip2)
	$(call say,TinyGo)
	@$(pytest) test/tinygo $(call more,bench/tinygo)
	$(took)

test-tinygo-oldest: wasm ## test-tinygo under the oldest TinyGo that is supported
	@tools/setup tinygo-oldest
	$(call say,the oldest TinyGo)
	@TINYGO=$$(tools/setup which tinygo-oldest) || { echo "skipped: it could not be had"; exit 0; }; \
	    export TINYGO; $(pytest) test/tinygo

test-e2e: cli ## misuse, guards, contract, bdwgc, mimalloc, package and scale tests, with the built libraries
	@$(call more,tools/setup wheel)
	$(call say,end to end)
	@tools/lint --symbols
	@$(subst loadfile,loadgroup,$(pytest)) test/abuse test/attack test/guard test/safe test/tags test/contract \
	    test/libgc test/mimalloc test/package test/scale --ignore-glob='*/test_crates*.py'
	$(took)

test-packages: cli ## what `make package` built, each installed, used and removed in a fresh place (minutes; takes root)
	@tools/setup fresh recipes tinygo
	$(call say,packages)
	@GLEBE_TEST_LONG=1 $(rust) $(PYTHON) -m pytest -q -rs test/package/test_packages*.py test/package/test_recipes.py

test-macos: ## the macOS port compiles, by zig from PyPI (on a PC; nothing is run)
	$(call say,macOS objects)
	@tools/check-macos

test-miri: ## Bump and FreeList under Miri, which finds undefined behaviour and races (rustup's nightly)
	@tools/setup miri
	$(call say,Miri)
	@tools/setup which miri >/dev/null || { echo "skipped: no nightly Rust with Miri could be had"; exit 0; }; \
	    set -e; rustup run nightly cargo miri test --no-default-features --test bump --test freelist; \
	    rustup run nightly cargo miri test --no-default-features --features resize --test bump

test-loaded: ## ten rounds of `make test` beside eight busy loops (a day; tools/loaded runs less)
	$(call say,beside eight busy loops)
	@tools/loaded 10 8 -- test

test-bare: ## `make demo` and `make test` on a bare machine: Debian's minimal tree in a chroot (an hour; takes root)
	$(call say,a bare machine)
	@if [ "$$(id -u)" = 0 ]; then tools/setup bare && tools/bare; \
	    else echo "skipped: it takes root: sudo make test-bare"; fi

# After these tiers: C tests with all seeds, interleavings of larger cases, TinyGo's soak and hosts, months, all of
# test/scale, stress with printed seeds, fuzzing.
longest := test-macos test-windows-long test-miri test-tinygo-oldest test-bare
test-long: test-all $(longest) ## test-all, and what takes longer: whole programs, all seeds, stress, fuzzing (hours)
	@$(MAKE) package
	@$(MAKE) test-packages
	$(call say,what takes longest of the tests above)
	@$(rust) $(PYTHON) -m pytest -q -rs -m long test/tinygo test/package test/crate test/lua test/contract test/scale
	@$(rust) $(PYTHON) -m pytest -q -rs bench/stylus
	$(call say,programs on bdwgc and its own tests)
	@tools/setup libgc
	@GLEBE_TEST_LONG=1 $(rust) $(PYTHON) -m pytest -q -rs test/libgc
	$(call say,C tests with all seeds)
	@set -e; for tier in $(c-tiers); do $(MAKE) $$tier LONG=ON; done
	$(call say,interleavings of larger cases)
	@GLEBE_INTERLEAVE=long $(build)/cmake-test/test-interleave-protocols
	$(call say,TinyGo: the soak and the tests of other modules)
	@GLEBE_SOAK=200000 GLEBE_TEST_MODULES=1 $(PYTHON) -m pytest -q -rs -s test/tinygo/test_soak.py \
	    test/tinygo/test_modules.py test/tinygo/test_go_plugin.py test/tinygo/test_scheduler.py
	$(call say,TinyGo: Coraza with the core rule set)
	@GLEBE_TEST_MODULES=1 $(PYTHON) -m pytest -q -rs -s test/tinygo/test_coraza.py \
	    test/tinygo/test_coraza_proxy_wasm.py test/tinygo/test_coraza_envoy.py
	$(call say,TinyGo: the standard library's own tests)
	@GLEBE_TEST_STD=1 $(PYTHON) -m pytest -q -rs -s test/tinygo/test_std.py
	$(call say,TinyGo: thousands of requests in each host)
	@GLEBE_TEST_LONG=1 $(PYTHON) -m pytest -q -rs test/tinygo/test_hosts.py
	$(call say,Bump: many more sizes at the edges)
	@GLEBE_TEST_LONG=1 $(rust) $(PYTHON) -m pytest -q -rs test/crate/test_bump_edges.py
	$(call say,ninety days of a service on the fake clock)
	@GLEBE_TEST_LONG=1 $(build)/cmake-test/test-model-months
	$(call say,ten minutes of a service in Lua)
	@$(PYTHON) bench/months/run --gate
	$(call say,a server's size: the gates' self-test; every case)
	@test/scale/run --self-test
	@test/scale/run --gate --allocators glebe,glibc
	$(call say,figures of seeing memory)
	@$(rust) bench/setup
	@GLEBE_TEST_LONG=1 $(PYTHON) -m pytest -q -rs test/package/test_seeing.py
	$(call say,stories of memory)
	@GLEBE_TEST_LONG=1 $(PYTHON) -m pytest -q -rs test/package/test_stories.py
	$(call say,stress and fuzzing)
	@test/stress/run
	@test/fuzz/run

# ---- measure, check, clean --------------------------------------------------------------------------------------

.PHONY: bench bench-full bench-pool bench-lua bench-months bench-scale bench-tinygo bench-stylus bench-rust bench-tex
.PHONY: bench-libgc bench-windows lint clean
bench: cli ## compare with the peers, quick selection (prints a table)
	@$(rust) bench/setup
	@$(rust) bench/run --quick

bench-full: cli ## compare with the peers on everything
	@$(rust) bench/setup
	@$(rust) bench/run

bench-pool: lib ## glebe_pool beside malloc per object: instructions and memory (a minute; needs valgrind)
	@$(PYTHON) bench/pool/run --gate

bench-lua: lib ## Lua states on glebe beside glibc, mimalloc and jemalloc (minutes; bench/lua/run --help)
	@tools/setup bench-lua
	@$(rust) $(PYTHON) bench/lua/run

bench-months: lib ## a Lua service under each allocator at once: resident memory over time (ten minutes)
	@tools/setup bench-lua
	@$(rust) bench/setup
	@$(PYTHON) bench/months/run --gate

bench-scale: lib ## many blocks, threads, heaps, much address space (half an hour; test/scale/run --help)
	@$(rust) $(PYTHON) test/scale/run

bench-tinygo: | $(build) ## glebe beside TinyGo's collectors and nottinygc (minutes; bench/tinygo/run --help)
	@tools/setup wasm $(shell sed -n 's/^list_tinygo().*/tinygo/p' tools/setup)
	@$(rust) $(PYTHON) bench/tinygo/run

bench-stylus: | $(build) ## Bump beside others by the prices of a Stylus node (minutes; bench/stylus/run --help)
	@tools/setup stylus
	@$(rust) $(PYTHON) bench/stylus/run

bench-rust: | $(build) ## glebe's Rust allocators beside those of other crates (minutes; bench/rust/run --help)
	@tools/setup bench-rust
	@$(rust) $(PYTHON) bench/rust/run
	@$(rust) $(PYTHON) bench/rust/run --native

bench-libgc: lib ## programs and graphs on bdwgc's library and on glebe's (a quarter of an hour; bench/libgc/run --help)
	@tools/setup libgc
	$(call say,programs on bdwgc)
	@bench/libgc/run
	$(call say,graphs of objects)
	@bench/libgc/graphs --instructions --times

bench-windows: windows ## Windows programs under Wine, beside mimalloc (ten minutes; bench/windows/run --help)
	@bench/windows/run --write

bench-tex: lib ## TeX engines typesetting a long book under each malloc (an hour; bench/tex/run --help)
	@tools/setup tex
	@$(rust) bench/peers/build.sh
	@$(PYTHON) bench/tex/run

lint: test-setup test-lint ## test-lint after setting up its tools

clean: ## remove build/ and target/
	@rm -rf $(build) target

$(build):
	@mkdir -p $@

comma := ,
