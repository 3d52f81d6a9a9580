// Sums over the extents of a heap.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <holdfast/manager.hpp>

#include "output.hpp"

namespace holdfast_cli {

/// Larger blocks are huge, others of whole pages big.
inline constexpr std::uint64_t largest_big_block = std::uint64_t{16} << 20U;

enum class space_kind : std::uint8_t { free, big, huge, slab, roots, reserved };
inline constexpr std::array<std::string_view, 6> space_kind_names{"free", "big", "huge", "slab", "roots", "reserved"};

[[nodiscard]] space_kind kind_of(const holdfast::extent_info& extent) noexcept;

struct space_share {
    std::uint64_t extents = 0;
    std::uint64_t bytes = 0;
    std::uint64_t backed_bytes = 0;
};

class space_summary {
public:
    void add(const holdfast::extent_info& extent) noexcept;

    [[nodiscard]] const space_share& of(space_kind kind) const noexcept {
        return shares_.at(static_cast<std::size_t>(kind));
    }
    [[nodiscard]] std::uint64_t extents() const noexcept;
    [[nodiscard]] std::uint64_t largest_free() const noexcept { return largest_free_; }
    /// Bytes in allocated small blocks.
    [[nodiscard]] std::uint64_t live_slab_bytes() const noexcept { return live_slab_bytes_; }
    [[nodiscard]] std::uint64_t damaged_slabs() const noexcept { return damaged_slabs_; }
    [[nodiscard]] bool backed_exactly() const noexcept { return backed_exactly_; }
    /// 1 - bytes of the largest free extent / free bytes; 0 where nothing is free.
    [[nodiscard]] double external_fragmentation() const noexcept;
    /// 1 - live_slab_bytes() / bytes of slabs; 0 where there is no slab.
    [[nodiscard]] double slab_fragmentation() const noexcept;

private:
    std::array<space_share, space_kind_names.size()> shares_{};
    std::uint64_t largest_free_ = 0;
    std::uint64_t live_slab_bytes_ = 0;
    std::uint64_t damaged_slabs_ = 0;
    bool backed_exactly_ = true;
};

[[nodiscard]] space_summary space_of(const holdfast::manager& heap);
/// {"free": {"extents": .., "bytes": .., "backed": ..}, ...}
[[nodiscard]] json shares_as_json(const space_summary& space);
[[nodiscard]] json as_json_object(const space_summary& space);
void print_space(const space_summary& space);

}  // namespace holdfast_cli
