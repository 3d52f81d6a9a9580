// A large heap of blocks whose sizes are uniform in 64 B to 128 KiB, allocated and not written, as it is opened after
// SIGKILL and after a clean close.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "support/samples.hpp"

namespace bench {

inline constexpr std::uint64_t uniform_least_size = 64;
inline constexpr std::uint64_t uniform_greatest_size = 128U << 10U;

/// The time of a heap's constructor in a fresh process, in milliseconds; the files are in the page cache.
struct uniform_openings {
    samples recovered;  ///< after SIGKILL
    samples replay;     ///< of it, by the heap's own account
    samples clean;
    samples mapping;  ///< the files, and nothing else
    /// Records that the last recovery looked at; in the domain page-cache those in flight alone.
    std::uint64_t pending = 0;
};

class uniform_heap {
public:
    /// Builds it, in a process that is killed at its end, in the domain page-cache. Throws std::runtime_error.
    uniform_heap(std::filesystem::path path, std::uint64_t bytes, std::uint64_t seed);
    /// Opens it in turn after SIGKILL and clean, each time in a process of its own. Every other one replaces
    /// `replacements` blocks by others and is killed. Throws std::runtime_error where a block is missing or too much.
    [[nodiscard]] uniform_openings open_repeatedly(const std::string& domain, unsigned rounds,
                                                   std::uint64_t replacements) const;
    [[nodiscard]] std::uint64_t blocks() const noexcept { return blocks_; }
    /// Disk space that building it takes, with everything.
    [[nodiscard]] static std::uint64_t demand(std::uint64_t bytes) noexcept;

private:
    std::filesystem::path path_;
    std::uint64_t seed_;
    std::uint64_t blocks_ = 0;
};

}  // namespace bench
