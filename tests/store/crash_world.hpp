// Processes that write and read one environment until they are killed, and what must be in it afterwards.
//
// Transaction n does what its number says, to whatever the ones before it left; so a store's content is a function of
// the number in it, and an observer that knows the number knows all. What is acknowledged is written down in memory
// that outlives the processes.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "base/process_test_support.hpp"
#include "store/lmdb_library.hpp"

namespace holdfast::test {

/// In memory shared by the observer and all processes. Zero bytes are a valid value.
struct crash_oracle {
    std::atomic<std::uint64_t> acknowledged;  ///< the greatest transaction whose commit returned 0
    std::atomic<std::uint64_t> started;       ///< the greatest that was begun
    std::atomic<std::uint64_t> commits;
    std::atomic<std::uint64_t> reads;
    std::atomic<std::uint32_t> stopping;  ///< the file system is about to go: failures are no faults
    std::atomic<std::uint32_t> faults;
    char fault[512];  ///< the first

    void report(const std::string& what);
};

struct crash_plan {
    const lmdb_library* library;
    std::string directory;
    unsigned flags;  ///< of mdb_env_open()
    std::uint64_t seed;
    std::size_t map_size;
    bool full_disk_is_expected =
        false;                 ///< a transaction that fails for want of space is aborted, and the next one comes
    bool acknowledges = true;  ///< what its writers commit must survive
    bool on_memory = false;    ///< the file counts as persistent memory; only ours has that
};

/// Writes transactions until it is killed, or cannot any more. Returns an exit status.
int write_transactions(const crash_plan& plan, crash_oracle& oracle, std::uint64_t writer);
/// Reads the whole store again and again: each time it must be one version, and none that is older than what was
/// acknowledged before.
int read_transactions(const crash_plan& plan, crash_oracle& oracle);

/// What a store must hold.
class crash_model {
public:
    explicit crash_model(std::uint64_t seed) : seed_(seed) {}
    /// Opens the environment and compares. Returns "" or what is wrong: the number in it must be at least that which is
    /// acknowledged and at most that which was started, and everything else what the number says.
    [[nodiscard]] std::string examine(const crash_plan& plan, const crash_oracle& oracle);
    [[nodiscard]] std::uint64_t version() const noexcept { return version_; }

private:
    void advance(const crash_plan& plan, std::uint64_t to);

    std::uint64_t seed_;
    std::uint64_t version_ = 0;
    std::map<std::string, std::string> plain_;
    std::map<std::string, std::set<std::string>> duplicates_;
};

}  // namespace holdfast::test
