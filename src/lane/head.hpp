// The head of the file `lanes`: the last checkpoint and the number of lanes, which both only grow. A crashed heap
// without both in force (LANE-26, docs/atomic-protocol.md), or whose file is too short for them (LANE-25), has lost
// records and is refused.
//
//   LANE-19: a copy counts only if its seal fits; of two that count, the larger one is in force.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "base/result.hpp"
#include "lane/lane.hpp"
#include "lane/lane_format.hpp"
#include "persist/domain.hpp"

namespace holdfast::lane {

[[nodiscard]] base::failure corrupt(std::string field, std::string found, std::string expected);

[[nodiscard]] sealed_on_media<std::uint64_t> sealed(std::uint64_t lane_count, std::uint64_t heap_key) noexcept;
[[nodiscard]] sealed_on_media<checkpoint_on_media> sealed(const checkpoint_on_media& checkpoint,
                                                          std::uint64_t heap_key) noexcept;
[[nodiscard]] constexpr std::uint64_t number_in(std::uint64_t lane_count) noexcept { return lane_count; }
[[nodiscard]] constexpr std::uint64_t number_in(const checkpoint_on_media& checkpoint) noexcept {
    return checkpoint.time;
}

[[nodiscard]] lanes_head_on_media new_head(const checkpoint_on_media& checkpoint, std::uint64_t lane_count,
                                           std::uint64_t heap_key) noexcept;

template <class Value>
using copies_on_media = sealed_on_media<Value>[sealed_copies];

/// LANE-19. sealed_copies where none counts.
template <class Value>
[[nodiscard]] std::size_t copy_in_force(const copies_on_media<Value>& copies, std::uint64_t heap_key) noexcept {
    std::size_t found = sealed_copies;
    for (std::size_t i = 0; i < sealed_copies; ++i) {
        const auto& value = copies[i].value;
        if (copies[i].seal == sealed(value, heap_key).seal &&
            (found == sealed_copies || number_in(value) > number_in(copies[found].value))) {
            found = i;
        }
    }
    return found;
}

/// `lanes`: at least the file's first page. `corrupt` where no copy counts, or the time breaks LANE-27.
[[nodiscard]] base::result<checkpoint_on_media> read_checkpoint(std::span<const std::byte> lanes,
                                                                std::uint64_t heap_key);

/// `lanes`: at least the file's first page. `corrupt` where no copy counts, or `file_size` is too small (LANE-25).
[[nodiscard]] base::result<std::uint64_t> read_lane_count(std::span<const std::byte> lanes, std::uint64_t file_size,
                                                          std::uint64_t slots, record_order order,
                                                          std::uint64_t heap_key);

/// A crash leaves the old value or the new one.
template <class Value, persist::persistence_domain Domain>
void write_in_turn(copies_on_media<Value>& copies, const std::type_identity_t<Value>& value, std::uint64_t heap_key,
                   Domain& domain, persist::site write_site, persist::site fence_site) noexcept {
    const bool first_in_force = copy_in_force(copies, heap_key) == 0;
    const sealed_on_media<Value> made = sealed(value, heap_key);
    domain.copy_nontemporal(&copies[first_in_force ? 1 : 0], &made, sizeof made, write_site);
    domain.fence(fence_site);
}

/// Calls for one file exclude each other; who reads meanwhile notices it.
void store_writer_counters(writer_counters_on_media& to, std::uint64_t heap_key, std::uint64_t incarnation,
                           const lane_statistics& counters) noexcept;

/// What a process that writes tells those that inspect the heap meanwhile.
struct writer_counters {
    std::uint64_t process = 0;
    lane_statistics counters;
};

/// `page`: a copy of page 0. Nothing where the counters are torn, or of another heap or incarnation.
[[nodiscard]] std::optional<writer_counters> read_writer_counters(std::span<const std::byte> page,
                                                                  std::uint64_t heap_key, std::uint64_t incarnation);

}  // namespace holdfast::lane
