// The four workloads of MDB-NVM (Bhandari's thesis, 4.8).
#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "store/opened_store.hpp"
#include "store/workloads.hpp"

namespace bench {
namespace {

constexpr std::uint32_t mtest_pairs = 3000;
constexpr unsigned mt_readers = 5;
constexpr std::uint32_t deletion_step = 3;  // "some entries": mtest of LMDB leaves out as many

/// 4 bytes, in the order of the numbers.
struct small_key {
    explicit small_key(std::uint32_t number) noexcept
        : bytes{static_cast<unsigned char>(number >> 24U), static_cast<unsigned char>(number >> 16U),
                static_cast<unsigned char>(number >> 8U), static_cast<unsigned char>(number)} {}
    [[nodiscard]] MDB_val value() noexcept { return {bytes.size(), bytes.data()}; }
    std::array<unsigned char, 4> bytes;
};

void insert_in_one(const opened& store, std::uint32_t from) {
    store.in_transactions(mtest_pairs, mtest_pairs, [&](MDB_txn* transaction, std::uint64_t number) {
        small_key key(from + static_cast<std::uint32_t>(number));
        std::array<char, 32> text{};
        std::memcpy(text.data(), &number, sizeof(number));
        MDB_val k = key.value();
        MDB_val v{text.size(), text.data()};
        store.lib.check(store.lib.put(transaction, store.database(), &k, &v, 0));
    });
}

/// Each in a transaction of its own.
void remove_some(const opened& store) {
    store.in_transactions(mtest_pairs / deletion_step, 1, [&](MDB_txn* transaction, std::uint64_t number) {
        small_key key(static_cast<std::uint32_t>(number) * deletion_step);
        MDB_val k = key.value();
        store.lib.check(store.lib.del(transaction, store.database(), &k, nullptr));
    });
}

std::uint64_t walk(const opened& store, MDB_cursor_op step) {
    std::uint64_t count = 0;
    MDB_txn* const transaction = store.begin(MDB_RDONLY);
    MDB_cursor* cursor = nullptr;
    store.lib.check(store.lib.cursor_open(transaction, store.database(), &cursor));
    MDB_val k{};
    MDB_val v{};
    while (store.lib.cursor_get(cursor, &k, &v, step) == 0) {
        ++count;
    }
    store.lib.cursor_close(cursor);
    store.lib.txn_abort(transaction);
    return count;
}

store_results mtest(const store_library& library, bool /*is_lmdb*/, const std::filesystem::path& directory,
                    const store_sizes& /*sizes*/) {
    const opened store(library, directory, 0);
    const stopwatch watch;
    insert_in_one(store, 0);
    std::uint64_t seen = walk(store, MDB_NEXT);
    remove_some(store);
    seen += walk(store, MDB_NEXT) + walk(store, MDB_PREV);
    return {{"mtest", watch.milliseconds()}, {"checksum", static_cast<double>(seen)}};
}

store_results thesis_fill(const store_library& library, const std::filesystem::path& directory,
                          const store_sizes& sizes, order how, const char* name) {
    const opened store(library, directory, 0);
    return {{name, fill(store, sizes.entries, batch, how)}};
}
store_results fillseqsync(const store_library& library, bool /*is_lmdb*/, const std::filesystem::path& directory,
                          const store_sizes& sizes) {
    return thesis_fill(library, directory, sizes, order::ascending, "fillseqsync");
}
store_results fillrandomsync(const store_library& library, bool /*is_lmdb*/, const std::filesystem::path& directory,
                             const store_sizes& sizes) {
    return thesis_fill(library, directory, sizes, order::scattered, "fillrandomsync");
}

/// Two writers and five readers, side by side, in a store that has pairs already.
store_results mt_bench(const store_library& library, bool /*is_lmdb*/, const std::filesystem::path& directory,
                       const store_sizes& /*sizes*/) {
    const opened store(library, directory, 0);
    insert_in_one(store, 0);
    std::vector<std::thread> threads;
    const stopwatch watch;
    threads.emplace_back([&] { insert_in_one(store, mtest_pairs); });
    threads.emplace_back([&] { remove_some(store); });
    for (unsigned reader = 0; reader < mt_readers; ++reader) {
        threads.emplace_back([&] {
            walk(store, MDB_NEXT);
            walk(store, MDB_PREV);
        });
    }
    for (std::thread& one : threads) {
        one.join();
    }
    const double took = watch.milliseconds();
    return {{"mt_bench", took}, {"checksum", static_cast<double>(walk(store, MDB_NEXT))}};
}

}  // namespace

const std::vector<store_workload>& thesis_workloads() {
    static const std::vector<store_workload> all = {{"mtest", true, mtest},
                                                    {"fillseqsync", true, fillseqsync},
                                                    {"fillrandomsync", true, fillrandomsync},
                                                    {"mt_bench", true, mt_bench}};
    return all;
}

}  // namespace bench
