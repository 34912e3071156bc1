// A store in C++: std::map of shared_ptr, a thread for each connection, memcached's text protocol.
//
//     store SOCKET
//
//   connections  --shared_ptr-->  recent (a queue)  -->  a thread that keeps an index by size
//        |                                                   |
//        +--------> shards: std::map<string, shared_ptr<const Entry>>
//
// The last reference to an entry is dropped wherever it ends: by the connection that replaced it, by another that was
// reading it, or by the indexing thread. Ends at SIGTERM.

#include <condition_variable>
#include <csignal>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <sstream>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

struct Entry {
    std::string key, flags, body;
};
using Ref = std::shared_ptr<const Entry>;

struct Shard {
    std::shared_mutex lock;
    std::map<std::string, Ref> entries;
};
Shard shards[16];
Shard &shard(const std::string &key) { return shards[std::hash<std::string>()(key) % 16]; }

class Recent {
    std::mutex lock;
    std::condition_variable some;
    std::deque<Ref> queue;

public:
    void put(Ref entry)
    {
        std::lock_guard<std::mutex> guard(lock);
        queue.push_back(std::move(entry));
        if (queue.size() >= 256)
            some.notify_one();
    }

    // Never returns: the newest 20,000 entries, by size.
    void index()
    {
        std::multimap<size_t, Ref> by_size;
        std::deque<std::multimap<size_t, Ref>::iterator> order;
        for (;;) {
            std::deque<Ref> batch;
            {
                std::unique_lock<std::mutex> guard(lock);
                some.wait(guard, [&] { return queue.size() >= 256; });
                batch.swap(queue);
            }
            for (Ref &entry : batch)
                order.push_back(by_size.emplace(entry->body.size(), std::move(entry)));
            for (; order.size() > 20000; order.pop_front())
                by_size.erase(order.front());
        }
    }
} recent;

// Reads lines and bodies from a connection; false at its end.
class Reader {
    int link;
    std::string held;
    size_t at = 0;

    bool more()
    {
        char bytes[1 << 14];
        ssize_t n = read(link, bytes, sizeof bytes);
        if (n <= 0)
            return false;
        held.erase(0, at);
        at = 0;
        held.append(bytes, static_cast<size_t>(n));
        return true;
    }

public:
    explicit Reader(int link) : link(link) {}

    bool line(std::string &out)
    {
        size_t end;
        while ((end = held.find("\r\n", at)) == std::string::npos)
            if (!more())
                return false;
        out = held.substr(at, end - at);
        at = end + 2;
        return true;
    }
    bool body(size_t bytes, std::string &out)
    {
        while (held.size() - at < bytes + 2)
            if (!more())
                return false;
        out = held.substr(at, bytes);
        at += bytes + 2;
        return true;
    }
};

void answer(const std::vector<std::string> &words, Reader &in, std::string &out)
{
    if (words[0] == "set" && words.size() >= 5) {
        auto entry = std::make_shared<Entry>();
        entry->key = words[1];
        entry->flags = words[2];
        if (!in.body(std::stoul(words[4]), entry->body))
            return;
        Ref old = entry;
        Shard &home = shard(words[1]);
        {
            std::unique_lock<std::shared_mutex> guard(home.lock);
            home.entries[words[1]].swap(old);
        }
        recent.put(std::move(entry));
    } else if (words[0] == "delete") {
        Shard &home = shard(words[1]);
        std::unique_lock<std::shared_mutex> guard(home.lock);
        home.entries.erase(words[1]);
    } else if (words[0] == "get") {
        Ref found;
        {
            Shard &home = shard(words[1]);
            std::shared_lock<std::shared_mutex> guard(home.lock);
            auto it = home.entries.find(words[1]);
            if (it != home.entries.end())
                found = it->second;
        }
        if (found) {
            std::ostringstream head;
            head << "VALUE " << found->key << ' ' << found->flags << ' ' << found->body.size() << "\r\n";
            out += head.str() + found->body + "\r\n";
        }
        out += "END\r\n";
    } else if (words[0] == "version") {
        out += "VERSION 1\r\n";
    }
}

void serve(int link)
{
    Reader in(link);
    std::string line, out;
    while (in.line(line)) {
        std::istringstream parts(line);
        std::vector<std::string> words;
        for (std::string word; parts >> word;)
            words.push_back(word);
        if (words.size() < 1)
            continue;
        answer(words, in, out);
        if (words[0] == "version" || out.size() > 1 << 16) {
            if (write(link, out.data(), out.size()) < 0)
                break;
            out.clear();
        }
    }
    close(link);
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGTERM, [](int) { _exit(0); });
    sockaddr_un where = {};
    where.sun_family = AF_UNIX;
    std::strncpy(where.sun_path, argv[1], sizeof where.sun_path - 1);
    unlink(argv[1]);
    int door = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(door, reinterpret_cast<sockaddr *>(&where), sizeof where) || listen(door, 16))
        return 1;
    std::thread([] { recent.index(); }).detach();
    for (;;) {
        int link = accept(door, nullptr, nullptr);
        if (link >= 0)
            std::thread(serve, link).detach();
    }
}
