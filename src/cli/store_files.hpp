// What the files of the stores in a heap say to somebody who opens neither the heap nor them (docs/store-format.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace holdfast_cli {

/// As of the last checkpoint, but the sizes.
struct store_file_glance {
    std::string file;  ///< its name in the heap's directory
    std::uint64_t apparent_bytes = 0;
    std::uint64_t charged_bytes = 0;
    std::uint64_t checkpoints = 0;
    std::uint64_t transactions = 0;
    std::uint64_t entries = 0;  ///< of the unnamed database; each named one is one
    std::uint64_t log_room_bytes = 0;
};

/// Sorted by name. Files that cannot be read, or have no valid meta, are left out. Never throws but bad_alloc.
[[nodiscard]] std::vector<store_file_glance> glance_at_store_files(const std::string& heap);

}  // namespace holdfast_cli
