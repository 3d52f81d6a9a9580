// A large heap of blocks whose sizes are uniform in 64 B to 128 KiB (PAllocator, VLDB 2017, figure 14), allocated and
// not written.
#pragma once

#include <cstdint>
#include <filesystem>

#include <holdfast/manager.hpp>

#include "recovery/crashed_heap.hpp"

namespace bench {

class uniform_heap final : public crashed_heap {
public:
    /// Builds it, in a process that is killed at its end, in the domain page-cache. `replacements`: blocks that are
    /// replaced by others before each kill after that. Throws std::runtime_error.
    uniform_heap(std::filesystem::path path, std::uint64_t bytes, std::uint64_t seed, std::uint64_t replacements);
    [[nodiscard]] std::uint64_t blocks() const noexcept { return blocks_; }
    /// Disk space that building it takes, with everything.
    [[nodiscard]] static std::uint64_t demand(std::uint64_t bytes) noexcept;

private:
    void change(holdfast::manager& heap, std::uint64_t seed) const override;
    void require_whole(const holdfast::manager& heap) const override;

    std::uint64_t blocks_ = 0;
    std::uint64_t replacements_;
};

}  // namespace bench
