// Thirty programs that leak, and ten that do not, by their number. `leaky N` leaks what its line in `plants` says, and
// ends by returning from main. A number from 100 runs a clean one.
#include <algorithm>
#include <any>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <pthread.h>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

namespace {
struct Node { Node *next, *other; char more[48]; };
struct Base { virtual ~Base() = default; long data[6]; };
struct Derived : Base { std::string name = std::string(100, 'd'); };
struct Shared { std::shared_ptr<Shared> other; };

void *volatile sink;  // the last address is overwritten by the next
std::vector<Node *> kept;
Node *volatile global;
thread_local void *local;

void lose(void *block) { sink = block; }

Node *chain(int length)
{
    Node *first = nullptr;
    while (length-- > 0)
        first = new Node{first, nullptr, {}};
    return first;
}

template <class F> void in_thread(F f) { std::thread(f).join(); }

struct Plant { void (*plant)(); int blocks; };
const Plant plants[] = {
    {[] { lose(malloc(24)); }, 1},
    {[] { for (int i = 0; i < 100; i++) lose(malloc(100)); }, 100},
    {[] { lose(calloc(10, 70)); }, 1},
    {[] { lose(realloc(malloc(10), 5000)); }, 1},
    {[] { lose(aligned_alloc(4096, 8192)); }, 1},
    {[] { lose(malloc(300000)); }, 1},
    {[] { lose(malloc(8 << 20)); }, 1},
    {[] { lose(strdup("a string that nobody frees")); }, 1},
    {[] { lose(new int[1000]); }, 1},
    {[] { lose(new Derived); }, 2},
    {[] { lose(chain(20)); }, 20},
    {[] { Node *a = new Node{}, *b = new Node{}; a->next = b; b->next = a; lose(a); }, 2},
    {[] { Node *a = chain(5); for (Node *n = a; n; n = n->next) n->other = a; lose(a); }, 5},
    {[] { auto a = std::make_shared<Shared>(); a->other = std::make_shared<Shared>(); a->other->other = a; }, 2},
    {[] { lose(new std::vector<int>(5000)); }, 2},
    {[] { lose(new std::string(200, 'x')); }, 2},
    {[] { std::unique_ptr<Node> a(new Node{}); lose(a.release()); }, 1},
    {[] { global = chain(10); global->next = nullptr; }, 9},
    {[] { kept.push_back(chain(3)); kept.clear(); kept.shrink_to_fit(); }, 3},
    {[] { in_thread([] { lose(malloc(640)); }); }, 1},
    {[] { in_thread([] { void *volatile own[4]; for (auto &p : own) p = malloc(900); }); }, 4},
    {[] { for (int i = 0; i < 8; i++) in_thread([] { lose(malloc(1500)); }); }, 8},
    {[] { void *p; in_thread([&p] { p = malloc(777); }); lose(p); }, 1},
    {[] { lose(new std::map<int, int>{{1, 2}, {3, 4}, {5, 6}}); }, 4},
    {[] { lose(new std::list<int>(6, 1)); }, 7},
    {[] { lose(new std::function<int()>([big = std::string(99, 'c')] { return int(big.size()); })); }, 3},
    {[] { char **rows = new char *[50]; for (int i = 0; i < 50; i++) rows[i] = new char[60]; lose(rows); }, 51},
    {[] { for (int i = 0; i < 1000; i++) { void *p = malloc(50); if (i % 100) free(p); else lose(p); } }, 10},
    {[] { Node *a = chain(100); while (a && a->next) { Node *n = a->next->next; delete a; a = n; } delete a; }, 50},
    {[] { char *p = new char[1000]; p += 5000; lose(p); }, 1},
};

std::map<std::string, std::vector<int>> tree;
std::unordered_map<int, std::string> table;
std::vector<std::unique_ptr<Base>> objects;
pthread_key_t key;
char *interior;
const std::function<void()> cleans[] = {
    [] { for (int i = 0; i < 3000; i++) tree["key" + std::to_string(i)].resize(i % 50); },
    [] {
        for (int i = 0; i < 3000; i++)
            table[i] = std::string(i % 300, 'x');
        for (int i = 0; i < 3000; i += 2)
            table.erase(i);
    },
    [] { for (int i = 0; i < 500; i++) objects.push_back(std::make_unique<Derived>()); },
    [] { global = chain(1000); },
    [] { interior = (char *)malloc(8000) + 500; },
    [] {
        std::vector<std::future<std::string>> all;
        for (int i = 0; i < 20; i++)
            all.push_back(std::async(std::launch::async, [i] { return std::string(200, char('a' + i)); }));
        for (auto &one : all)
            table[int(table.size())] = one.get();
    },
    [] {
        pthread_key_create(&key, free);
        in_thread([] { pthread_setspecific(key, malloc(333)); });
        pthread_setspecific(key, malloc(444));
    },
    [] {
        std::regex expression("([a-z]+)([0-9]*)");
        std::smatch match;
        std::string text = "abc123";
        if (std::regex_match(text, match, expression))
            tree[match[1]].push_back(1);
    },
    [] {
        static std::any any;
        static std::variant<int, std::string> either;
        any = std::vector<int>(1000, 1);
        either = std::string(300, 'v');
    },
    [] {
        static std::set<std::string> words;
        std::istringstream in("one two three four five six seven eight nine ten eleven");
        for (std::string word; in >> word;)
            words.insert(word + std::string(40, '.'));
        local = malloc(2000);
    },
};

__attribute__((noinline)) void wipe()  // what the stack still has of addresses
{
    volatile char room[60000];
    for (auto &byte : room)
        byte = 0;
}
}  // namespace

int main(int count, char **words)
{
    size_t number = count > 1 ? strtoul(words[1], nullptr, 10) : 0;
    if (number >= 100) {
        cleans[number - 100]();
        return 0;
    }
    plants[number].plant();
    lose(nullptr);
    wipe();
    if (count > 2)
        printf("%d\n", plants[number].blocks);
    return 0;
}
