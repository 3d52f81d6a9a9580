// What a transaction costs: the same work by Holdfast and by libpmemobj.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include <maps/map.hpp>
#include <maps/queue.hpp>

namespace transactions {

class backend {
public:
    backend() = default;
    backend(const backend&) = delete;
    backend& operator=(const backend&) = delete;
    virtual ~backend() = default;

    [[nodiscard]] virtual std::string name() const = 0;
    /// Changes a word of 8 bytes, in so many transactions. Threads whose numbers differ, up to word_lines, may do it at
    /// the same time.
    virtual void change_word(std::uint64_t count, unsigned thread = 0) = 0;
    /// Changes 4 objects of 64 bytes wholly, makes one, and frees the one made before, in so many transactions.
    virtual void change_objects(std::uint64_t count) = 0;
    /// `kind`: as in maps::map_names(). Each change is a transaction.
    [[nodiscard]] virtual maps::map& map(std::string_view kind) = 0;
    [[nodiscard]] virtual maps::queue& queue() = 0;
};

/// The word of a thread has a cache line of its own, and the next, which processors fetch with it.
struct alignas(128) word_line {
    std::uint64_t word = 0;
};
inline constexpr unsigned word_lines = 256;

inline constexpr unsigned queue_bits = 17;  ///< the queue has room for 2^17 texts

/// Emulated: flushes and fences as on persistent memory. Disk: durable on the file system of the directory.
enum class media : std::uint8_t { emulated, disk };

[[nodiscard]] std::unique_ptr<backend> make_holdfast(const std::filesystem::path& directory,
                                                     media on = media::emulated);
/// Throws bench::backend_unavailable.
[[nodiscard]] std::unique_ptr<backend> make_libpmemobj(const std::filesystem::path& directory,
                                                       media on = media::emulated);

/// A durable allocation and a free, each one record and one fence: what a transaction is compared with. Nanoseconds of
/// one of the two.
[[nodiscard]] double time_of_a_record(const std::filesystem::path& directory, std::uint64_t pairs);

}  // namespace transactions
