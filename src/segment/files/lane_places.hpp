// Lanes lie in one file of the heap's directory, or by turns in one file of each node's directory: a thread then writes
// to memory of its own node. They form one range of bytes: the head, then lane by lane. With N files the head is the
// first page of node 0's file, and lane k is lane k / N of node k mod N's. The first page of each says of which heap
// and which node it is (LANE-28, docs/atomic-protocol.md).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/units.hpp"
#include "log/log_files.hpp"
#include "persist/storage.hpp"
#include "segment/files/heap_paths.hpp"
#include "segment/format/heap_format.hpp"

namespace holdfast::segment {

/// Files of the log of all lanes are named so, with their numbers.
inline constexpr const char* prefix_of_lane_log = "lanes.";
/// They lie in the heap's directory, also where lanes do not.
[[nodiscard]] log::log_place place_of_lane_log(const heap_paths& paths);

struct lane_shape {
    std::uint64_t lane_size = 0;  ///< whole pages
    std::uint64_t most = 0;

    [[nodiscard]] constexpr std::uint64_t size_of(std::uint64_t lanes) const noexcept {
        return lanes_at + lanes * lane_size;
    }
};
[[nodiscard]] constexpr lane_shape shape_of_lanes(std::uint64_t slots) noexcept {
    return {lane_size(slots), maximum_lanes};
}

struct lane_window {
    std::uint64_t in_range = 0;
    std::uint64_t in_file = 0;
    std::uint64_t size = 0;
};

class lane_places {
public:
    /// `by_node`: only with several nodes.
    lane_places(const heap_paths& paths, const lane_shape& shape, bool by_node)
        : paths_(paths), shape_(shape), files_(by_node ? paths.nodes() : 1) {}

    [[nodiscard]] bool is_by_node() const noexcept { return files_ > 1; }
    [[nodiscard]] std::uint32_t files() const noexcept { return files_; }
    [[nodiscard]] std::string path(std::uint32_t file) const {
        return is_by_node() ? paths_.node_lanes(file) : paths_.lanes();
    }
    [[nodiscard]] std::string directory(std::uint32_t file) const {
        return is_by_node() ? paths_.node(file) : paths_.directory();
    }
    [[nodiscard]] const lane_shape& shape() const noexcept { return shape_; }

    [[nodiscard]] std::uint64_t size_of(std::uint32_t file, std::uint64_t lanes) const noexcept {
        return shape_.size_of((lanes + files_ - 1 - file) / files_);
    }
    /// Counts lanes from lane 0 on, without a gap.
    [[nodiscard]] std::uint64_t lanes_in(std::span<const std::uint64_t> sizes) const noexcept;
    /// Bytes of the range that such files hold: whole lanes where there are several files, else whole pages.
    [[nodiscard]] std::uint64_t range_in(std::span<const std::uint64_t> sizes) const noexcept;
    /// The smallest answer of range_in() that has so many bytes.
    [[nodiscard]] std::uint64_t range_of(std::uint64_t bytes) const noexcept;
    /// The pieces of [begin, end) in the file, ascending and without a gap. Both are answers of range_in(), or 0.
    [[nodiscard]] std::vector<lane_window> windows(std::uint32_t file, std::uint64_t begin, std::uint64_t end) const;

private:
    heap_paths paths_;
    lane_shape shape_;
    std::uint32_t files_;
};

/// Only for a heap that has slots.
[[nodiscard]] lane_places places_of_lanes(const superblock_on_media& superblock, const heap_paths& paths);

/// LANE-28. False where the file's creation was cut off: it has neither an identity nor room for a lane. `corrupt`: the
/// file of another heap or node, or it has lanes and does not say whose.
base::result<bool> is_file_of_node(persist::file& file, const superblock_on_media& superblock, std::uint32_t node);
/// `corrupt` where is_file_of_node() is false.
base::result<void> check_file_of_node(persist::file& file, const superblock_on_media& superblock, std::uint32_t node);
/// Durable on return.
base::result<void> mark_file_of_node(persist::file& file, const superblock_on_media& superblock, std::uint32_t node);

/// Leaves out the identities. `corrupt` as check_file_of_node().
base::result<void> gather_lanes(persist::storage& storage, const superblock_on_media& superblock,
                                const lane_places& places, persist::file& to);

}  // namespace holdfast::segment
