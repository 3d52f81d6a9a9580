// Records of 100 bytes under keys of 8 bytes, each durable on a disk when put() returns: the same work by Holdfast and
// by stores that are loaded at run time.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace disk {

using record = std::array<std::byte, 100>;

class store {
public:
    store() = default;
    store(const store&) = delete;
    store& operator=(const store&) = delete;
    virtual ~store() = default;

    [[nodiscard]] virtual std::string name() const = 0;
    /// Whether many threads share syncs; where each put waits for its own, their run would take minutes.
    [[nodiscard]] virtual bool scales() const { return false; }
    /// Durable when it returns. `thread`: of the caller, from 0 on; each has keys of its own.
    virtual void put(unsigned thread, std::uint64_t key, const record& value) = 0;
};

/// A hash map of blocks in a heap in the domain `disk`, one transaction for each record; a lock for each bucket.
[[nodiscard]] std::unique_ptr<store> make_holdfast(const std::filesystem::path& directory);
/// In an ordered_index with records as its values.
[[nodiscard]] std::unique_ptr<store> make_ordered_index(const std::filesystem::path& directory);
// These throw bench::backend_unavailable where the library is missing. `threads`: how many will call.
[[nodiscard]] std::unique_ptr<store> make_lmdb(const std::filesystem::path& directory);
/// The write-ahead log with synchronous=FULL; a connection for each thread.
[[nodiscard]] std::unique_ptr<store> make_sqlite(const std::filesystem::path& directory, unsigned threads);
/// Writes with sync=true.
[[nodiscard]] std::unique_ptr<store> make_rocksdb(const std::filesystem::path& directory);

}  // namespace disk
