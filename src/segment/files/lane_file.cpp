#include "segment/files/lane_file.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/units.hpp"

namespace holdfast::segment {

namespace {

using base::failure;
using base::failure_code;
using base::page_size;
using persist::access_mode;

failure wrong_size(failure_code code, const std::string& path, std::string_view field, std::uint64_t found,
                   std::uint64_t most) {
    return failure{code, path, std::string(field), fmt::format("{}", found), fmt::format("at most {}", most), {}, 0};
}

base::result<void> with_hint(base::result<void> allocated, std::uint64_t bytes) {
    if (!allocated && allocated.error().code == failure_code::no_space) {
        allocated.error().expected = fmt::format("{} bytes for redo rings", bytes);
        allocated.error().hint = hint_without_room_for_lanes;
    }
    return allocated;
}

}  // namespace

base::result<void> lane_file::open(const lane_shape& shape) {
    // A disk writes blocks behind one another faster than here and there.
    const bool by_node = superblock_.has_pending_lanes()
                             ? (superblock_.now().flags & flag_lanes_by_node) != 0
                             : location_.paths().nodes() > 1 && location_.domain() != persist::domain_kind::disk;
    places_.emplace(location_.paths(), shape, by_node);
    std::vector<std::unique_ptr<persist::file>> files;
    for (std::uint32_t file = 0; file < places_->files(); ++file) {
        HF_TRY_ASSIGN(auto opened, open_file(file));
        files.push_back(std::move(opened));
    }
    if (by_node && may_make()) {
        // An older version put all lanes there. No record in it counts.
        HF_TRY(location_.storage().remove(location_.paths().lanes(), "lanes.remove_old"));
    }
    std::vector<std::uint64_t> sizes;
    for (const auto& opened : files) {
        HF_TRY_ASSIGN(const std::uint64_t size, opened->size());
        sizes.push_back(size);
    }
    HF_TRY(reserve(shape, places_->range_in(sizes)));
    return map_found(files, sizes);
}

/// For fewer lanes where addresses are few: threads share the last ones.
base::result<void> lane_file::reserve(const lane_shape& shape, std::uint64_t in_use) {
    constexpr std::uint64_t few = 64;
    for (std::uint64_t most = shape.most;; most /= 2) {
        auto range =
            address_range::anywhere(base::align_up(std::max(shape.size_of(most), in_use), page_size), 0, region_size);
        if (range) {
            range_ = std::move(range).value();
            return {};
        }
        if (most <= few || range.error().code != failure_code::limit) {
            range.error().path = path();
            return std::move(range).error();
        }
    }
}

base::result<std::unique_ptr<persist::file>> lane_file::open_file(std::uint32_t file) const {
    const std::string path = places_->path(file);
    HF_TRY_ASSIGN(const bool there, location_.storage().exists(path));
    std::unique_ptr<persist::file> opened;
    if (there) {
        HF_TRY_ASSIGN(opened, location_.storage().open(
                                  path, location_.shared() ? access_mode::read_write : access_mode::read_only));
    } else if (may_make()) {
        HF_TRY_ASSIGN(opened, location_.storage().create(path, "lanes.create"));
    } else {
        return failure{failure_code::missing, path, "file", "nothing", "the heap's redo rings", {}, 0};
    }
    HF_TRY_ASSIGN(const std::uint64_t size, opened->size());
    const std::uint64_t most = places_->size_of(file, places_->shape().most);
    if (size > most) {
        return wrong_size(failure_code::corrupt, path, "file size", size, most);
    }
    if (size <= lanes_at && may_make()) {
        HF_TRY(finish_creation(*opened, file));
    } else if (places_->is_by_node()) {
        HF_TRY(check_file_of_node(*opened, superblock_.now(), file));
    }
    return opened;
}

/// Repeated until the file has room for a lane: a crash may have cut it off.
base::result<void> lane_file::finish_creation(persist::file& opened, std::uint32_t file) const {
    if (places_->is_by_node()) {
        HF_TRY_ASSIGN(const bool is_its, is_file_of_node(opened, superblock_.now(), file));
        if (!is_its) {
            const auto preferred = location_.near(file);
            HF_TRY(mark_file_of_node(opened, superblock_.now(), file));
        }
    }
    return location_.storage().sync_directory(places_->directory(file), "lanes.create.sync");
}

base::result<void> lane_file::map_found(std::span<const std::unique_ptr<persist::file>> files,
                                        std::span<const std::uint64_t> sizes) {
    size_ = places_->range_in(sizes);
    for (std::uint32_t number = 0; number < places_->files(); ++number) {
        const auto windows = places_->windows(number, 0, size_);
        if (windows.empty()) {
            continue;
        }
        if (superblock_.is_copied() && location_.is_writer()) {
            HF_TRY(files[number]->allocate(0, windows.back().in_file + windows.back().size, "copied.lanes"));
        }
        HF_TRY(map(*files[number], number, windows));
    }
    return {};
}

base::result<void> lane_file::map(persist::file& file, std::uint32_t number,
                                  std::span<const lane_window> windows) const {
    std::vector<mapped_window> mapped;
    for (const lane_window& window : windows) {
        std::byte* const address = range_.begin() + window.in_range;
        HF_TRY(map_file(address, window.size, file.native_handle(), window.in_file, file.path(), location_.sharing()));
        if (places_->is_by_node() && location_.has_place() && location_.sharing() != page_sharing::shared_sync) {
            location_.topology().prefer_memory(location_.node_of_segment(number), address, window.size);
        }
        mapped.push_back({address, window.in_file, window.size});
    }
    return cover_.cover(file, mapped);
}

base::result<void> lane_file::grow_lanes(std::uint64_t bytes) {
    HF_TRY(location_.check_process());
    if (bytes <= size_) {
        return {};
    }
    if (bytes > range_.size()) {
        return wrong_size(failure_code::limit, path(), "size", bytes, range_.size());
    }
    const std::uint64_t to = places_->range_of(bytes);
    for (std::uint32_t number = 0; number < places_->files(); ++number) {
        const auto windows = places_->windows(number, size_, to);
        if (windows.empty()) {
            continue;
        }
        const auto preferred = places_->is_by_node() ? location_.near(number) : persist::topology::preference();
        HF_TRY_ASSIGN(auto file, location_.storage().open(places_->path(number), access_mode::read_write));
        if (places_->is_by_node()) {
            HF_TRY(check_file_of_node(*file, superblock_.now(), number));
        }
        const std::uint64_t begin = windows.front().in_file;
        HF_TRY(with_hint(file->allocate(begin, windows.back().in_file + windows.back().size - begin, "lanes.allocate"),
                         bytes));
        HF_TRY(file->sync("lanes.sync"));
        HF_TRY(map(*file, number, windows));
    }
    size_.store(to, std::memory_order_release);
    return {};
}

log_home lane_file::log() const { return {&location_.storage(), place_of_lane_log(location_.paths())}; }

base::result<void> lane_file::sync(persist::site where) const {
    for (std::uint32_t file = 0; lanes_size() != 0 && file < places_->files(); ++file) {
        HF_TRY_ASSIGN(auto opened, location_.storage().open(places_->path(file), access_mode::read_write));
        HF_TRY(opened->sync(where));
    }
    return {};
}

base::result<void> lane_file::remove_copied() const {
    const heap_paths& paths = location_.paths();
    for (std::uint32_t node = 0; node < paths.nodes(); ++node) {
        HF_TRY(location_.storage().remove(paths.node_lanes(node), "copied.lanes.remove"));
        HF_TRY(location_.storage().sync_directory(paths.node(node), "copied.lanes.remove.sync"));
    }
    HF_TRY(location_.storage().remove(paths.lanes(), "copied.lanes.remove"));
    return remove_copied_log();
}

base::result<void> lane_file::remove_copied_log() const {
    const log::log_files files(location_.storage(), place_of_lane_log(location_.paths()));
    HF_TRY_ASSIGN(const auto numbers, files.numbers());
    for (const std::uint64_t number : numbers) {
        HF_TRY(location_.storage().remove(files.path_of(number), "copied.log.remove"));
    }
    return location_.storage().sync_directory(location_.paths().directory(), "copied.lanes.remove.sync");
}

}  // namespace holdfast::segment
