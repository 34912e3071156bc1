// Protocol buffers: messages made, encoded, decoded, changed, and kept for a while.   decode ROUNDS
#include "orders.pb.h"
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <random>
#include <string>

namespace {

std::mt19937 random_numbers(1);
unsigned below(unsigned n) { return static_cast<unsigned>(random_numbers()) % n; }
std::string word(unsigned most) { return std::string(1 + below(most), static_cast<char>('a' + below(26))); }

void fill(bench::Order *order, int depth)
{
    order->set_id(random_numbers());
    order->set_customer(word(40));
    for (unsigned i = below(8); i-- > 0;) {
        bench::Item *item = order->add_items();
        item->set_name(word(60));
        item->set_count(below(100));
        item->set_price(below(100000) / 100.0);
        for (unsigned k = below(4); k-- > 0;)
            item->add_tags(word(20));
        for (unsigned k = below(3); k-- > 0;)
            (*item->mutable_attributes())[word(12)] = word(50);
    }
    for (unsigned i = below(20); i-- > 0;)
        order->add_history(static_cast<long>(below(1000)) - 500);
    if (below(2))
        order->set_card(word(19));
    else
        order->set_token(word(200));
    if (depth > 0 && below(3) == 0)
        fill(order->mutable_previous(), depth - 1);
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    bench::Orders source;
    for (int i = 0; i < 3000; i++)
        fill(source.add_orders(), 3);
    std::string wire = source.SerializeAsString();
    std::deque<bench::Orders> kept;
    size_t total = 0;
    for (long round = std::atol(argv[1]); round-- > 0;) {
        bench::Orders &orders = kept.emplace_back();
        if (!orders.ParseFromString(wire))
            return 1;
        for (bench::Order &order : *orders.mutable_orders()) {
            if (order.items_size() > 4)
                order.mutable_items()->RemoveLast();
            else
                fill(&order, 0);
            total += static_cast<size_t>(order.items_size());
        }
        total += orders.ByteSizeLong();
        if (kept.size() > 3)
            kept.pop_front();
    }
    std::printf("%zu %zu\n", wire.size(), total);
}
