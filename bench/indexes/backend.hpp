// Maps of words of 8 bytes, in DRAM and in persistent memory, for the same calls. Those in persistent memory
// execute flushes and fences (domain `emulated`).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <time.h>

#include "allocators/allocation_run.hpp"

namespace indexes {

/// Nanoseconds that this thread has had a processor: what else runs on the machine shows in its caches alone.
class processor_watch {
public:
    [[nodiscard]] double nanoseconds() const noexcept { return now() - start_; }

private:
    [[nodiscard]] static double now() noexcept {
        timespec at{};
        ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
        return static_cast<double>(at.tv_sec) * 1e9 + static_cast<double>(at.tv_nsec);
    }
    double start_ = now();
};

class backend {
public:
    backend() = default;
    backend(const backend&) = delete;
    backend& operator=(const backend&) = delete;
    virtual ~backend() = default;

    [[nodiscard]] virtual std::string name() const = 0;
    virtual void insert(std::uint64_t key, std::uint64_t value) = 0;
    virtual void update(std::uint64_t key, std::uint64_t value) = 0;
    virtual void remove(std::uint64_t key) = 0;
    /// 0 where the key is not there.
    [[nodiscard]] virtual std::uint64_t find(std::uint64_t key) const = 0;
    /// The sum of `count` values, from the first key that is not smaller on.
    [[nodiscard]] virtual std::uint64_t scan(std::uint64_t key, std::size_t count) const = 0;
    /// Whether scan() can be called.
    [[nodiscard]] virtual bool is_ordered() const { return true; }
    [[nodiscard]] virtual bool may_have_threads() const { return false; }
    /// Bytes that an entry takes; 0: not known.
    [[nodiscard]] virtual double bytes_an_entry(std::uint64_t /*entries*/) const { return 0; }
};

[[nodiscard]] std::unique_ptr<backend> make_holdfast(const std::filesystem::path& directory);
[[nodiscard]] std::unique_ptr<backend> make_holdfast_hash(const std::filesystem::path& directory);
[[nodiscard]] std::unique_ptr<backend> make_std_map();
/// Throws bench::backend_unavailable where Abseil's headers were not there.
[[nodiscard]] std::unique_ptr<backend> make_absl_btree();
/// The protocol of the FPTree's paper over libpmemobj: entry, fingerprint and bitmap are each flushed and fenced. Its
/// inner nodes are the fastest ordered map of DRAM at hand. Throws bench::backend_unavailable.
[[nodiscard]] std::unique_ptr<backend> make_fptree_libpmemobj(const std::filesystem::path& directory,
                                                              std::uint64_t entries);

/// Nanoseconds of one durable record and its fence: what an insertion is compared with.
[[nodiscard]] double time_of_a_record(const std::filesystem::path& directory, std::uint64_t pairs);
/// Loads `entries` entries into an index, closes its heap, and returns the milliseconds of opening the index again.
[[nodiscard]] double time_of_an_open(const std::filesystem::path& directory, std::uint64_t entries);

}  // namespace indexes
