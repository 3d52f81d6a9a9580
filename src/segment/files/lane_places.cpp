#include "segment/files/lane_places.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/checksum.hpp"
#include "segment/format/superblock.hpp"

namespace holdfast::segment {

namespace {

using base::failure;
using base::failure_code;
using base::page_size;
using persist::access_mode;

std::uint64_t checksum_of(const lanes_identity_on_media& identity) noexcept {
    return base::checksum64(std::as_bytes(std::span{&identity, 1}).first(offsetof(lanes_identity_on_media, checksum)));
}

failure not_its_file(const std::string& path, std::string_view field, std::string found, std::string expected) {
    return failure{failure_code::corrupt,
                   path,
                   std::string(field),
                   std::move(found),
                   std::move(expected),
                   "it is another heap's or node's, or was damaged; nothing was written to it. Where the heap was "
                   "closed, no record in it counts, and it may be removed",
                   0};
}

/// The rest of the target is a hole.
base::result<void> copy_window(persist::file& from, const lane_window& window, persist::file& to) {
    std::vector<std::byte> content(window.size);
    HF_TRY(from.read_at(window.in_file, content));
    if (window.in_range == 0) {
        std::fill_n(content.begin() + lanes_identity_at, sizeof(lanes_identity_on_media), std::byte{0});
    }
    for (std::uint64_t at = 0; at < window.size; at += page_size) {
        const auto page = std::span(content).subspan(at, page_size);
        if (std::ranges::any_of(page, [](std::byte each) { return each != std::byte{0}; })) {
            HF_TRY(to.write_at(window.in_range + at, page, "copy.lanes.gather"));
        }
    }
    return {};
}

}  // namespace

log::log_place place_of_lane_log(const heap_paths& paths) {
    constexpr std::uint64_t file_size = 512 * base::kibibyte;
    return {paths.directory(), prefix_of_lane_log, file_size};
}

std::uint64_t lane_places::lanes_in(std::span<const std::uint64_t> sizes) const noexcept {
    std::uint64_t first_missing = shape_.most;
    for (std::uint32_t file = 0; file < files_; ++file) {
        const std::uint64_t here = sizes[file] < lanes_at ? 0 : (sizes[file] - lanes_at) / shape_.lane_size;
        first_missing = std::min(first_missing, file + here * files_);
    }
    return first_missing;
}

std::uint64_t lane_places::range_in(std::span<const std::uint64_t> sizes) const noexcept {
    return is_by_node() ? shape_.size_of(lanes_in(sizes)) : base::align_down(sizes.front(), page_size);
}

std::uint64_t lane_places::range_of(std::uint64_t bytes) const noexcept {
    if (!is_by_node()) {
        return base::align_up(bytes, page_size);
    }
    return bytes <= lanes_at ? lanes_at : shape_.size_of(base::divide_up(bytes - lanes_at, shape_.lane_size));
}

std::vector<lane_window> lane_places::windows(std::uint32_t file, std::uint64_t begin, std::uint64_t end) const {
    std::vector<lane_window> found;
    if (!is_by_node()) {
        if (begin < end) {
            found.push_back({begin, begin, end - begin});
        }
        return found;
    }
    if (file == 0 && begin == 0 && end != 0) {
        found.push_back({0, 0, lanes_at});
    }
    const auto lanes_before = [this](std::uint64_t at) { return at == 0 ? 0 : (at - lanes_at) / shape_.lane_size; };
    for (std::uint64_t lane = lanes_before(begin); lane < lanes_before(end); ++lane) {
        if (lane % files_ == file) {
            found.push_back({shape_.size_of(lane), shape_.size_of(lane / files_), shape_.lane_size});
        }
    }
    return found;
}

lane_places places_of_lanes(const superblock_on_media& superblock, const heap_paths& paths) {
    return {paths.with_nodes(superblock.nodes), shape_of_lanes(superblock.lane_slots),
            (superblock.flags & flag_lanes_by_node) != 0};
}

base::result<bool> is_file_of_node(persist::file& file, const superblock_on_media& superblock, std::uint32_t node) {
    HF_TRY_ASSIGN(const std::uint64_t size, file.size());
    if (size < lanes_at) {
        return false;
    }
    lanes_identity_on_media identity{};
    HF_TRY(file.read_at(lanes_identity_at, std::as_writable_bytes(std::span{&identity, 1})));
    if (std::memcmp(identity.magic, lanes_magic, sizeof lanes_magic) != 0 ||
        identity.checksum != checksum_of(identity)) {
        if (size == lanes_at) {
            return false;
        }
        return not_its_file(file.path(), "identity", "none", fmt::format("that of node {}", node));
    }
    if (std::memcmp(identity.uuid, superblock.uuid, sizeof identity.uuid) != 0) {
        return not_its_file(file.path(), "uuid", uuid_text(identity.uuid), uuid_text(superblock.uuid));
    }
    if (identity.node != node || identity.nodes != superblock.nodes) {
        return not_its_file(file.path(), "node", fmt::format("{} of {}", identity.node, identity.nodes),
                            fmt::format("{} of {}", node, superblock.nodes));
    }
    return true;
}

base::result<void> check_file_of_node(persist::file& file, const superblock_on_media& superblock, std::uint32_t node) {
    HF_TRY_ASSIGN(const bool is_its, is_file_of_node(file, superblock, node));
    if (!is_its) {
        return not_its_file(file.path(), "identity", "none", fmt::format("that of node {}", node));
    }
    return {};
}

base::result<void> mark_file_of_node(persist::file& file, const superblock_on_media& superblock, std::uint32_t node) {
    lanes_identity_on_media identity{};
    std::memcpy(identity.magic, lanes_magic, sizeof lanes_magic);
    std::memcpy(identity.uuid, superblock.uuid, sizeof identity.uuid);
    identity.node = node;
    identity.nodes = superblock.nodes;
    identity.checksum = checksum_of(identity);
    HF_TRY(file.allocate(0, lanes_at, "lanes.identity.allocate"));
    HF_TRY(file.write_at(lanes_identity_at, std::as_bytes(std::span{&identity, 1}), "lanes.identity.write"));
    return file.sync("lanes.identity.sync");
}

base::result<void> gather_lanes(persist::storage& storage, const superblock_on_media& superblock,
                                const lane_places& places, persist::file& to) {
    std::vector<std::unique_ptr<persist::file>> files;
    std::vector<std::uint64_t> sizes;
    for (std::uint32_t node = 0; node < places.files(); ++node) {
        HF_TRY_ASSIGN(auto file, storage.open(places.path(node), access_mode::read_only));
        HF_TRY(check_file_of_node(*file, superblock, node));
        HF_TRY_ASSIGN(const std::uint64_t size, file->size());
        files.push_back(std::move(file));
        sizes.push_back(size);
    }
    const std::uint64_t range = places.range_in(sizes);
    HF_TRY(to.resize(range, "copy.lanes.resize"));
    for (std::uint32_t node = 0; node < places.files(); ++node) {
        for (const lane_window& window : places.windows(node, 0, range)) {
            HF_TRY(copy_window(*files[node], window, to));
        }
    }
    return {};
}

}  // namespace holdfast::segment
