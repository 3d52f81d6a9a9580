#include "store/workloads.hpp"

#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

#include "store/opened_store.hpp"
#include "support/environment.hpp"
#include "support/random.hpp"
#include "support/samples.hpp"

namespace bench {
namespace {

store_results put_synced(const store_library& library, bool /*is_lmdb*/, const std::filesystem::path& directory,
                         const store_sizes& sizes) {
    store_results found;
    {
        const opened store(library, directory, 0);
        found["fillseq_synced"] = fill(store, sizes.synced, 1, order::ascending);
    }
    std::filesystem::remove_all(directory);
    std::filesystem::create_directory(directory);
    const opened store(library, directory, 0);
    found["fillrandom_synced"] = fill(store, sizes.synced, 1, order::scattered);
    return found;
}

store_results put_batches(const store_library& library, bool /*is_lmdb*/, const std::filesystem::path& directory,
                          const store_sizes& sizes) {
    const opened store(library, directory, 0);
    return {{"batches_synced", fill(store, sizes.synced_in_batches, batch, order::scattered)}};
}

store_results put_unsynced(const store_library& library, bool /*is_lmdb*/, const std::filesystem::path& directory,
                           const store_sizes& sizes) {
    const opened store(library, directory, MDB_NOSYNC);
    return {{"fillrandom_unsynced", fill(store, sizes.entries / 4, 1, order::scattered)}};
}

/// One put a transaction that is durable where memory is: LMDB writes its map and calls msync.
store_results put_durable_memory(const store_library& library, bool is_lmdb, const std::filesystem::path& directory,
                                 const store_sizes& sizes) {
    const opened store(library, directory, is_lmdb ? MDB_WRITEMAP : 0U);
    return {{"durable_in_memory", fill(store, sizes.entries / 10, 1, order::scattered)}};
}

store_results put_by_threads(const store_library& library, bool /*is_lmdb*/, const std::filesystem::path& directory,
                             const store_sizes& sizes) {
    const opened store(library, directory, 0);
    const std::uint64_t each = sizes.synced / sizes.writers;
    std::vector<std::thread> threads;
    const stopwatch watch;
    for (unsigned thread = 0; thread < sizes.writers; ++thread) {
        threads.emplace_back([&, thread] {
            store.in_transactions(each, 1, [&](MDB_txn* transaction, std::uint64_t number) {
                store.put(transaction, entry_key(thread * each + number, order::scattered), number);
            });
        });
    }
    for (std::thread& one : threads) {
        one.join();
    }
    return {{"writers_synced", watch.milliseconds()}};
}

std::uint64_t read_some(const opened& store, std::uint64_t reads, std::uint64_t entries, std::uint64_t seed) {
    random_source random(seed);
    std::uint64_t sum = 0;
    MDB_txn* const transaction = store.begin(MDB_RDONLY);
    for (std::uint64_t i = 0; i < reads; ++i) {
        const entry_key key(random.below(entries), order::scattered);
        MDB_val k{key_bytes, const_cast<char*>(key.text)};
        MDB_val v{};
        store.lib.check(store.lib.get(transaction, store.database(), &k, &v));
        std::uint64_t word = 0;
        std::memcpy(&word, v.mv_data, sizeof(word));
        sum += word;
    }
    store.lib.txn_abort(transaction);
    return sum;
}

std::uint64_t scan(const opened& store, std::uint64_t& count) {
    std::uint64_t sum = 0;
    MDB_txn* const transaction = store.begin(MDB_RDONLY);
    MDB_cursor* cursor = nullptr;
    store.lib.check(store.lib.cursor_open(transaction, store.database(), &cursor));
    MDB_val k{};
    MDB_val v{};
    for (count = 0; store.lib.cursor_get(cursor, &k, &v, MDB_NEXT) == 0; ++count) {
        std::uint64_t word = 0;
        std::memcpy(&word, v.mv_data, sizeof(word));
        sum = sum * 3 + word;
    }
    store.lib.cursor_close(cursor);
    store.lib.txn_abort(transaction);
    return sum;
}

void remove(const opened& store, std::uint64_t from, std::uint64_t count) {
    store.in_transactions(count, batch, [&](MDB_txn* transaction, std::uint64_t number) {
        const entry_key key(from + number, order::scattered);
        MDB_val k{key_bytes, const_cast<char*>(key.text)};
        store.lib.check(store.lib.del(transaction, store.database(), &k, nullptr));
    });
}

/// A large store: filled, read, scanned, half and then nine tenths of it removed; and its disk space.
store_results large_store(const store_library& library, bool /*is_lmdb*/, const std::filesystem::path& directory,
                          const store_sizes& sizes) {
    store_results found;
    std::uint64_t checksum = 0;
    {
        const opened store(library, directory, MDB_NOSYNC);
        found["fillrandom_batches"] = fill(store, sizes.entries, batch, order::scattered);
        store.sync();
        found["filled_bytes"] = static_cast<double>(charged_bytes(directory));
        checksum = read_some(store, sizes.entries, sizes.entries, sizes.seed);  // warms up
        stopwatch watch;
        checksum += read_some(store, sizes.entries, sizes.entries, sizes.seed + 1);
        found["reads_1_thread"] = watch.milliseconds();
        watch = stopwatch();
        std::uint64_t second = 0;
        std::thread other([&] { second = read_some(store, sizes.entries, sizes.entries, sizes.seed + 2); });
        checksum += read_some(store, sizes.entries, sizes.entries, sizes.seed + 3);
        other.join();
        found["reads_2_threads"] = watch.milliseconds();
        checksum += second;
        std::uint64_t count = 0;
        checksum += scan(store, count);
        watch = stopwatch();
        for (int i = 0; i < 3; ++i) {
            checksum += scan(store, count) + count;
        }
        found["scans"] = watch.milliseconds();
        watch = stopwatch();
        remove(store, 0, sizes.entries / 2);
        found["removal_of_half"] = watch.milliseconds();
        remove(store, sizes.entries / 2, sizes.entries * 4 / 10);
        store.sync();
        checksum += scan(store, count) + count;
    }
    {
        // Settled: closed, opened, and some transactions later.
        const opened store(library, directory, 0);
        fill(store, 10, 1, order::ascending);
    }
    found["removed_bytes"] = static_cast<double>(charged_bytes(directory));
    found["checksum"] = static_cast<double>(checksum >> 12U);
    return found;
}

/// Disk space where a reader stays while everything is overwritten ten times; and without the overwriting.
store_results stuck_reader(const store_library& library, bool /*is_lmdb*/, const std::filesystem::path& directory,
                           const store_sizes& sizes) {
    store_results found;
    const opened store(library, directory, MDB_NOSYNC);
    fill(store, sizes.stuck, batch, order::scattered);
    store.sync();
    found["before_stuck_bytes"] = static_cast<double>(charged_bytes(directory));
    MDB_txn* const reader = store.begin(MDB_RDONLY);
    const stopwatch watch;
    for (std::uint64_t round = 1; round <= 10; ++round) {
        fill(store, sizes.stuck, batch, order::scattered, round * sizes.stuck);
    }
    found["overwriting_under_reader"] = watch.milliseconds();
    store.sync();
    found["stuck_bytes"] = static_cast<double>(charged_bytes(directory));
    library.txn_abort(reader);
    return found;
}

}  // namespace

const std::vector<store_workload>& store_workloads() {
    static const std::vector<store_workload> all = {
        {"put_synced", false, put_synced},
        {"put_batches", false, put_batches},
        {"put_by_threads", false, put_by_threads},
        {"put_unsynced", true, put_unsynced},
        {"put_durable_memory", true, put_durable_memory},
        {"large_store", false, large_store},
        {"stuck_reader", false, stuck_reader},
    };
    return all;
}

}  // namespace bench
