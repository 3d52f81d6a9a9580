// The head of the file `lanes`. Both its numbers only grow. A crashed heap without both in force (LANE-26,
// docs/atomic-protocol.md), or whose file is too short for them (LANE-25), has lost records and is refused.
//
//   LANE-19: a copy counts only if its seal fits; of two that count, the larger number is in force.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.hpp"
#include "lane/lane_format.hpp"
#include "persist/domain.hpp"
#include "persist/mutant.hpp"

namespace holdfast::lane {

[[nodiscard]] base::failure corrupt(std::string field, std::string found, std::string expected);

enum class sealed_kind : std::uint8_t { checkpoint_time, lane_count };

[[nodiscard]] sealed_number_on_media sealed(std::uint64_t number, sealed_kind kind, std::uint64_t heap_key) noexcept;
[[nodiscard]] bool is_sealed(const sealed_number_on_media& copy, sealed_kind kind, std::uint64_t heap_key) noexcept;

[[nodiscard]] lanes_head_on_media new_head(std::uint64_t checkpoint_time, std::uint64_t lane_count,
                                           std::uint64_t heap_key) noexcept;

/// sealed_copies where none counts.
[[nodiscard]] std::size_t copy_in_force(std::span<const sealed_number_on_media, sealed_copies> copies, sealed_kind kind,
                                        std::uint64_t heap_key) noexcept;

/// `lanes`: at least the file's first page. `corrupt` where no copy counts, or the time breaks LANE-27.
[[nodiscard]] base::result<std::uint64_t> read_checkpoint_time(std::span<const std::byte> lanes,
                                                               std::uint64_t heap_key);

/// `lanes`: at least the file's first page. `corrupt` where no copy counts, or `file_size` is too small (LANE-25).
[[nodiscard]] base::result<std::uint64_t> read_lane_count(std::span<const std::byte> lanes, std::uint64_t file_size,
                                                          std::uint64_t slots, std::uint64_t heap_key);

/// A crash leaves the old number or the new one.
template <persist::persistence_domain Domain>
void write_in_turn(std::span<sealed_number_on_media, sealed_copies> copies, sealed_kind kind, std::uint64_t number,
                   std::uint64_t heap_key, Domain& domain, persist::site write_site,
                   persist::site fence_site) noexcept {
    const bool first_in_force = copy_in_force(copies, kind, heap_key) == 0;
    const bool second = HF_MUTANT("lane.head.copy_in_force") ? !first_in_force : first_in_force;
    const sealed_number_on_media made = sealed(number, kind, heap_key);
    domain.copy_nontemporal(&copies[second ? 1 : 0], &made, sizeof made, write_site);
    domain.fence(fence_site);
}

}  // namespace holdfast::lane
