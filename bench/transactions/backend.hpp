// What a transaction costs: the same work by Holdfast and by libpmemobj, in the domain `emulated`: both execute flushes
// and fences as on persistent memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace transactions {

/// All numbers are keys of a map or counts of transactions. A function runs `count` transactions.
class backend {
public:
    backend() = default;
    backend(const backend&) = delete;
    backend& operator=(const backend&) = delete;
    virtual ~backend() = default;

    [[nodiscard]] virtual std::string name() const = 0;
    /// Changes a word of 8 bytes.
    virtual void change_word(std::uint64_t count) = 0;
    /// Changes 4 objects of 64 bytes wholly, makes one, and frees the one that was made before.
    virtual void change_objects(std::uint64_t count) = 0;
    /// A hash map with chains: one transaction for each key that is inserted or removed.
    virtual void insert(const std::uint64_t* keys, std::uint64_t count) = 0;
    virtual void remove(const std::uint64_t* keys, std::uint64_t count) = 0;
    /// Returns the sum of the values.
    [[nodiscard]] virtual std::uint64_t look_up(const std::uint64_t* keys, std::uint64_t count) const = 0;
};

inline constexpr std::size_t bucket_count = std::size_t{1} << 16U;
[[nodiscard]] constexpr std::size_t bucket_of(std::uint64_t key) noexcept {
    return key * 0x9e37'79b9'7f4a'7c15U >> 48U;
}

/// Emulated: flushes and fences as on persistent memory. Disk: durable on the file system of the directory.
enum class media : std::uint8_t { emulated, disk };

[[nodiscard]] std::unique_ptr<backend> make_holdfast(const std::filesystem::path& directory,
                                                     media on = media::emulated);
/// Throws bench::backend_unavailable.
[[nodiscard]] std::unique_ptr<backend> make_libpmemobj(const std::filesystem::path& directory,
                                                       media on = media::emulated);

/// A pair of a durable allocation and a free, each one record and one fence: what a transaction is compared with.
/// Returns the nanoseconds of one of the two.
[[nodiscard]] double time_of_a_record(const std::filesystem::path& directory, std::uint64_t pairs);

}  // namespace transactions
