// LLVM's JIT (llvmlite.dll, from its wheel) works under a recursive lock: the compiled code calls back, allocates and
// takes the lock again. LLVM itself holds a std::recursive_mutex of its C++ library across allocations.
//
//     jit LLVMLITE.DLL ROUNDS THREADS FUNCTIONS recursive|critical|plain
//
// Each round is a new context, module and engine with FUNCTIONS functions, whose results are checked. `plain` is the
// positive control: a lock that is not recursive. No progress in 20 seconds is a deadlock: exit status 2.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <windows.h>

namespace {

// ---- llvmlite's functions, by name ----

struct llvm {
    HMODULE library;

    template <typename result, typename... parameters>
    auto find(const char *name, result (*&function)(parameters...)) -> void
    {
        function = reinterpret_cast<result (*)(parameters...)>(reinterpret_cast<void *>(GetProcAddress(library, name)));
        if (!function)
            std::printf("%s is not in llvmlite.dll\n", name), std::exit(1);
    }

    void *(*context_create)();
    void (*context_dispose)(void *);
    void *(*parse)(void *context, const char *text, const char **error);
    void *(*target)(const char *triple, const char **error);
    void *(*machine)(void *target, const char *triple, const char *cpu, const char *features, int level,
        const char *reloc, const char *model, int print, int jit, const char *abi);
    void *(*engine)(void *module, void *machine, bool memory_manager, const char **error);
    void (*finalize)(void *engine);
    uint64_t (*address)(void *engine, const char *name);
    void (*engine_dispose)(void *engine);

    explicit llvm(const char *path) : library(LoadLibraryExA(path, nullptr, LOAD_WITH_ALTERED_SEARCH_PATH))
    {
        if (!library)
            std::printf("%s cannot be loaded: %lu\n", path, GetLastError()), std::exit(1);
        for (const char *name :
            {"LLVMPY_LinkInMCJIT", "LLVMPY_InitializeNativeTarget", "LLVMPY_InitializeNativeAsmPrinter"}) {
            void (*start)();
            find(name, start);
            start();
        }
        find("LLVMPY_ContextCreate", context_create);
        find("LLVMPY_ContextDispose", context_dispose);
        find("LLVMPY_ParseAssembly", parse);
        find("LLVMPY_GetTargetFromTriple", target);
        find("LLVMPY_CreateTargetMachine", machine);
        find("LLVMPY_CreateMCJITCompiler", engine);
        find("LLVMPY_FinalizeObject", finalize);
        find("LLVMPY_GetFunctionAddress", address);
        find("LLVMPY_DisposeExecutionEngine", engine_dispose);
    }
};

// ---- the lock and its holder ----

struct critical_section {
    CRITICAL_SECTION section;
    critical_section() { InitializeCriticalSection(&section); }
    void lock() { EnterCriticalSection(&section); }
    void unlock() { LeaveCriticalSection(&section); }
};

struct plain_lock {
    SRWLOCK word = SRWLOCK_INIT;
    void lock() { AcquireSRWLockExclusive(&word); }
    void unlock() { ReleaseSRWLockExclusive(&word); }
};

template <typename mutex> mutex the_lock;
std::unordered_map<uint64_t, std::string> seen;
std::atomic<unsigned> progress{0};

template <typename mutex> uint64_t call_back(uint64_t x)
{
    std::lock_guard<mutex> hold(the_lock<mutex>);
    seen[x % 1000] = std::string(x % 300, 'x');
    return x + 1;
}

// Works like a compiler's front end: maps of functions, each a map of values, from which it builds the text in the end.
template <typename mutex> std::string functions(unsigned count, unsigned round)
{
    std::unordered_map<std::string, std::unordered_map<std::string, std::string>> library;
    for (unsigned i = 0; i < count; i++) {
        auto &values = library["f" + std::to_string(i)];
        values["i"] = "phi i64 [ 0, %entry ], [ %next, %loop ]";
        values["sum"] = "phi i64 [ %x, %entry ], [ %more, %loop ]";
        values["term"] = "mul i64 %i, " + std::to_string(round * 7 + i);
        values["more"] = "add i64 %sum, %term";
        values["next"] = "add i64 %i, 1";
        values["on"] = "icmp ult i64 %next, 10";
    }
    std::string text = "target triple = \"x86_64-pc-windows-msvc\"\n";
    std::string back = std::to_string(reinterpret_cast<uintptr_t>(&call_back<mutex>));
    for (auto &[name, values] : library) {
        text += "define i64 @" + name + "(i64 %x) {\nentry:\n  br label %loop\nloop:\n";
        for (const char *value : {"i", "sum", "term", "more", "next", "on"})
            text += std::string("  %") + value + " = " + values[value] + "\n";
        text += "  br i1 %on, label %loop, label %end\nend:\n"
                "  %called = call i64 inttoptr (i64 " + back + " to ptr)(i64 %more)\n  ret i64 %called\n}\n";
    }
    return text;
}

template <typename mutex> void round_of(const llvm &llvm, unsigned count, unsigned round, bool alone)
{
    const char *error = nullptr;
    std::unique_lock<mutex> hold(the_lock<mutex>);
    void *context = llvm.context_create();
    void *module = llvm.parse(context, functions<mutex>(count, round).c_str(), &error);
    void *target = llvm.target("x86_64-pc-windows-msvc", &error);
    void *machine = target
        ? llvm.machine(target, "x86_64-pc-windows-msvc", "", "", 2, "default", "jitdefault", 0, 1, "") : nullptr;
    void *engine = module && machine ? llvm.engine(module, machine, true, &error) : nullptr;
    if (!engine)
        std::printf("no engine: %s\n", error ? error : "?"), std::exit(1);
    if (!alone)
        hold.unlock(); // so that threads compile at once
    llvm.finalize(engine);
    for (unsigned i = 0; i < count; i++) {
        auto f = reinterpret_cast<uint64_t (*)(uint64_t)>(llvm.address(engine, ("f" + std::to_string(i)).c_str()));
        if (!f || f(i) != i + 45 * uint64_t(round * 7 + i) + 1)
            std::printf("round %u, function %u: wrong\n", round, i), std::exit(1);
    }
    llvm.engine_dispose(engine);
    llvm.context_dispose(context);
    progress++;
}

template <typename mutex> int all(const llvm &llvm, unsigned rounds, unsigned threads, unsigned count)
{
    std::atomic<unsigned> next{0};
    auto work = [&] {
        for (unsigned round; (round = next++) < rounds;)
            round_of<mutex>(llvm, count, round, threads == 1);
    };
    std::vector<std::thread> workers;
    for (unsigned i = 0; i < threads; i++)
        workers.emplace_back(work);
    for (auto &worker : workers)
        worker.join();
    std::printf("well: %u rounds of %u functions, %u callbacks kept\n", rounds, count, unsigned(seen.size()));
    return 0;
}

void watch()
{
    for (unsigned before = 0, idle = 0; idle < 20; idle++) {
        Sleep(1000);
        if (progress != before)
            before = progress, idle = 0;
    }
    std::printf("deadlock: nothing done in 20 seconds, after round %u\n", unsigned(progress));
    std::fflush(stdout);
    TerminateProcess(GetCurrentProcess(), 2);
}

} // namespace

int main(int words, char **word)
{
    if (words != 6)
        return std::printf("jit LLVMLITE.DLL ROUNDS THREADS FUNCTIONS recursive|critical|plain\n"), 1;
    llvm llvm(word[1]);
    unsigned rounds = std::stoul(word[2]), threads = std::stoul(word[3]), count = std::stoul(word[4]);
    std::thread(watch).detach();
    switch (word[5][0]) {
    case 'r': return all<std::recursive_mutex>(llvm, rounds, threads, count);
    case 'c': return all<critical_section>(llvm, rounds, threads, count);
    default: return all<plain_lock>(llvm, rounds, threads, count);
    }
}
