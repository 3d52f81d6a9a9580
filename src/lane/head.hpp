// The head of the file `lanes`: two numbers that only grow, each in two sealed copies.
//
//   LANE-19: a copy counts only if its seal fits; of two, the larger number is in force.
// A crashed heap has both (LANE-26 in docs/atomic-protocol.md), and its file is long enough (LANE-25), or it has lost
// records.
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

/// A failure of the lanes that are read: which field, what it holds, what it may hold.
[[nodiscard]] base::failure corrupt(std::string field, std::string found, std::string expected);

enum class sealed_kind : std::uint8_t { checkpoint_time, lane_count };

[[nodiscard]] sealed_number_on_media sealed(std::uint64_t number, sealed_kind kind, std::uint64_t heap_key) noexcept;
[[nodiscard]] bool is_sealed(const sealed_number_on_media& copy, sealed_kind kind, std::uint64_t heap_key) noexcept;

/// A head that has nothing but these.
[[nodiscard]] lanes_head_on_media new_head(std::uint64_t checkpoint_time, std::uint64_t lane_count,
                                           std::uint64_t heap_key) noexcept;

/// The index of the copy that is in force; sealed_copies where none is.
[[nodiscard]] std::size_t copy_in_force(std::span<const sealed_number_on_media, sealed_copies> copies, sealed_kind kind,
                                        std::uint64_t heap_key) noexcept;

/// Of the first bytes of the file. Fails with corrupt where neither copy's seal fits.
[[nodiscard]] base::result<std::uint64_t> read_checkpoint_time(std::span<const std::byte> lanes,
                                                               std::uint64_t heap_key);

/// Of the whole file, or its first page and `file_size`. Fails with corrupt where neither copy's seal fits, or where
/// the file is too short for so many lanes.
[[nodiscard]] base::result<std::uint64_t> read_lane_count(std::span<const std::byte> lanes, std::uint64_t file_size,
                                                          std::uint64_t slots, std::uint64_t heap_key);

/// Puts a larger number in force, durably: in the copy that is not, so that a crash leaves one of both.
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
