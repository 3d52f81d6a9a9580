// Accounts in a key-value store that lies in a heap beside an object: both change together, or not at all.
//
//     bank HEAP deposit NAME CENTS     money from outside
//     bank HEAP pay FROM TO CENTS
//     bank HEAP list                   prints the accounts in order, then "total T, transactions N"
//
// A kill at any moment leaves the sum of the accounts equal to the total. (On the page cache. Without
// accept_process_crash_only the heap survives a loss of power, too.)
#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>

#include <holdfast/store_in_heap.hpp>

namespace {

struct ledger {
    std::int64_t total = 0;
    std::uint64_t transactions = 0;
};

std::int64_t balance_of(const holdfast::store_view& in, const std::string& name) {
    const auto text = in.get(name);
    return text ? std::stoll(std::string(*text)) : 0;
}

void add(holdfast::store_changes& to, const std::string& name, std::int64_t cents) {
    const std::int64_t after = balance_of(to, name) + cents;
    if (after < 0) {
        throw std::runtime_error(name + " has too little");  // takes back all of the transaction
    }
    to.put(name, std::to_string(after));
}

}  // namespace

int main(int argc, char** argv) {
    const std::string command = argc > 2 ? argv[2] : "";
    try {
        holdfast::open_options options;
        options.durability = holdfast::durability::atomic;
        options.accept_process_crash_only = true;
        if ((command == "deposit" && argc == 5) || (command == "pay" && argc == 6) ||
            (command == "list" && argc == 3)) {
            holdfast::manager heap(holdfast::open_or_create, argv[1], options);
            auto& book = *heap.find_or_construct<ledger>("ledger")();
            holdfast::heap_store accounts(heap, "accounts");
            const std::int64_t cents = command == "list" ? 0 : std::stoll(argv[argc - 1]);
            if (command != "list") {
                heap.transact([&](holdfast::transaction& tx) {
                    auto& in = accounts.write(tx);
                    if (command == "pay") {
                        add(in, argv[3], -cents);
                        add(in, argv[4], cents);
                    } else {
                        add(in, argv[3], cents);
                        tx.open(book).total += cents;
                    }
                    ++tx.open(book).transactions;
                });
                return 0;
            }
            const auto view = accounts.read();
            for (const auto& [name, balance] : view.all()) {
                std::printf("%s %s\n", std::string(name).c_str(), std::string(balance).c_str());
            }
            std::printf("total %lld, transactions %llu\n", static_cast<long long>(book.total),
                        static_cast<unsigned long long>(book.transactions));
            return 0;
        }
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "bank: %s\n", failure.what());
        return 1;
    }
    std::fprintf(stderr, "usage: bank HEAP deposit NAME CENTS | pay FROM TO CENTS | list\n");
    return 2;
}
