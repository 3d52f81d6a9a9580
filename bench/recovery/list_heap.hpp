// A list of small objects in a heap (PMAlloc, TOCS 2024, table 3).
#pragma once

#include <cstdint>
#include <filesystem>

#include <holdfast/manager.hpp>

#include "recovery/crashed_heap.hpp"

namespace bench {

class list_heap final : public crashed_heap {
public:
    /// Builds it, in a process that is killed when the list is long enough. `replacements`: blocks that are allocated
    /// and freed before each kill after that. Throws std::runtime_error.
    list_heap(std::filesystem::path path, std::uint64_t objects, std::uint64_t seed, std::uint64_t replacements);

private:
    void change(holdfast::manager& heap, std::uint64_t seed) const override;
    void require_whole(const holdfast::manager& heap) const override;

    std::uint64_t objects_;
    std::uint64_t replacements_;
};

}  // namespace bench
