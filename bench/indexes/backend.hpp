// Maps of words of 8 bytes, in DRAM and in persistent memory, for the same calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "allocators/allocation_run.hpp"

namespace indexes {

/// What opening took, of one thread or of several.
struct open_times {
    double wall_ns = 0;
    double cpu_ns = 0;
};

class backend {
public:
    backend() = default;
    backend(const backend&) = delete;
    backend& operator=(const backend&) = delete;
    virtual ~backend() = default;

    /// As found, not as asked for.
    [[nodiscard]] virtual std::string durability() const { return "volatile"; }
    [[nodiscard]] virtual std::string domain() const { return "none"; }

    /// False, and nothing changes, where the key is there (insert) or is not there (update, remove).
    virtual bool insert(std::uint64_t key, std::uint64_t value) = 0;
    virtual bool update(std::uint64_t key, std::uint64_t value) = 0;
    virtual bool remove(std::uint64_t key) = 0;
    /// 0 where the key is not there: no value is 0.
    [[nodiscard]] virtual std::uint64_t find(std::uint64_t key) const = 0;
    /// The sum of `count` values, from the first key that is not smaller on. Where map_kind::is_ordered.
    [[nodiscard]] virtual std::uint64_t scan(std::uint64_t key, std::size_t count) const = 0;

    // One thread, and no call of another meanwhile:

    /// Inserts the keys 1, 2, ... `count` into an empty map.
    virtual void load(std::uint64_t count, std::uint64_t (*value_of)(std::uint64_t key)) {
        for (std::uint64_t key = 1; key <= count; ++key) {
            insert(key, value_of(key));
        }
    }
    /// Closes what lies on media, opens it again, and measures the latter. Where map_kind::is_on_media.
    [[nodiscard]] virtual open_times open_again() { return {}; }
    /// Bytes that all entries take where they lie on media; 0: not known.
    [[nodiscard]] virtual std::uint64_t bytes() const { return 0; }
    [[nodiscard]] virtual bench::protocol_totals totals() const { return {}; }
    /// After the last call: every check of the map; returns the milliseconds of the commit where there is one.
    [[nodiscard]] virtual double finish() { return 0; }
};

/// With room for `entries`, in the directory of the run. Throws bench::backend_unavailable.
using maker = std::unique_ptr<backend> (*)(const bench::allocation_run& run, std::uint64_t entries);
[[nodiscard]] std::unique_ptr<backend> make_holdfast(const bench::allocation_run& run, std::uint64_t entries);
[[nodiscard]] std::unique_ptr<backend> make_holdfast_hash(const bench::allocation_run& run, std::uint64_t entries);
[[nodiscard]] std::unique_ptr<backend> make_std_map(const bench::allocation_run& run, std::uint64_t entries);
/// Unavailable where Abseil's headers were not there.
[[nodiscard]] std::unique_ptr<backend> make_absl_btree(const bench::allocation_run& run, std::uint64_t entries);
/// The protocol of the FPTree's paper over libpmemobj: entry, fingerprint and bitmap are each flushed and fenced. Its
/// inner nodes are the fastest ordered map of DRAM at hand.
[[nodiscard]] std::unique_ptr<backend> make_fptree_libpmemobj(const bench::allocation_run& run, std::uint64_t entries);

/// What can be asked of a map.
struct map_kind {
    const char* name;
    maker make;
    bool is_ordered;
    bool may_have_threads;
    bool is_on_media;
};
/// Null where no map has that name.
[[nodiscard]] const map_kind* find_map_kind(const std::string& name);

}  // namespace indexes
