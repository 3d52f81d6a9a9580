// A store that is open through LMDB's interface, and what the workloads put into it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>

#include "store/library.hpp"
#include "support/random.hpp"
#include "support/samples.hpp"

namespace bench {

inline constexpr std::size_t key_bytes = 16;
inline constexpr std::size_t value_bytes = 100;
inline constexpr std::size_t map_size = std::size_t{16} << 30U;
inline constexpr std::uint64_t batch = 1000;

enum class order { ascending, scattered };

/// The key of an entry, 16 characters.
struct entry_key {
    entry_key(std::uint64_t number, order how) {
        const std::uint64_t word = how == order::ascending ? number : mix(number + 1);
        for (std::size_t i = key_bytes; i > 0; --i) {
            text[i - 1] = "0123456789abcdef"[word >> (4 * (key_bytes - i)) & 15U];
        }
    }
    char text[key_bytes];
};

class opened {
public:
    opened(const store_library& library, const std::filesystem::path& directory, unsigned flags) : lib(library) {
        lib.check(lib.env_create(&environment_));
        lib.check(lib.env_set_mapsize(environment_, map_size));
        if (lib.on_persistent_memory) {
            lib.check(lib.emulate_persistent_memory(environment_));
        }
        lib.check(lib.env_open(environment_, directory.c_str(), flags | MDB_NOTLS, 0600));
        MDB_txn* const transaction = begin(0);
        lib.check(lib.dbi_open(transaction, nullptr, 0, &database_));
        lib.check(lib.txn_commit(transaction));
    }
    opened(const opened&) = delete;
    opened& operator=(const opened&) = delete;
    ~opened() { lib.env_close(environment_); }

    [[nodiscard]] MDB_txn* begin(unsigned flags) const {
        MDB_txn* made = nullptr;
        lib.check(lib.txn_begin(environment_, nullptr, flags, &made));
        return made;
    }
    void put(MDB_txn* transaction, const entry_key& key, std::uint64_t version) const {
        char value[value_bytes];
        for (std::size_t at = 0; at + sizeof(std::uint64_t) <= value_bytes; at += sizeof(std::uint64_t)) {
            const std::uint64_t word = mix(version + at);
            std::memcpy(value + at, &word, sizeof(word));
        }
        std::memset(value + value_bytes / 8 * 8, 0, value_bytes % 8);
        MDB_val k{key_bytes, const_cast<char*>(key.text)};
        MDB_val v{value_bytes, value};
        lib.check(lib.put(transaction, database_, &k, &v, 0));
    }
    /// Calls with the numbers of a range, `each` to a transaction.
    template <class Call>
    void in_transactions(std::uint64_t count, std::uint64_t each, const Call& call) const {
        for (std::uint64_t at = 0; at < count;) {
            MDB_txn* const transaction = begin(0);
            for (std::uint64_t i = 0; i < each && at < count; ++i, ++at) {
                call(transaction, at);
            }
            lib.check(lib.txn_commit(transaction));
        }
    }
    void sync() const { lib.check(lib.env_sync(environment_, 1)); }
    [[nodiscard]] MDB_dbi database() const noexcept { return database_; }

    const store_library& lib;

private:
    MDB_env* environment_ = nullptr;
    MDB_dbi database_ = 0;
};

/// Milliseconds.
inline double fill(const opened& store, std::uint64_t count, std::uint64_t each, order how, std::uint64_t version = 0) {
    const stopwatch watch;
    store.in_transactions(count, each, [&](MDB_txn* transaction, std::uint64_t number) {
        store.put(transaction, entry_key(number, how), number + version);
    });
    return watch.milliseconds();
}

}  // namespace bench
